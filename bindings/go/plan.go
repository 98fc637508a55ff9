package rserve

// #include <rserve/rserve.h>
import "C"

import "unsafe"

// Plan is what a request would need.
type Plan struct {
	Fits           error // why the engine would refuse it, or nil
	PromptTokens   int64
	MRopeDelta     int64 // next text position minus PromptTokens
	KVBlocks       int64
	EmbeddingBytes int64 // of all pictures together, so the next two
	PixelBytes     int64
	InputBytes     int64
	Items          []Item
	Tokens         []int32 // of the prompt, placeholders expanded
	Positions      []int32 // M-RoPE, [3][PromptTokens]: temporal, height, width
}

// Item is a picture of a plan.
type Item struct {
	TokenBegin    int64 // its rows are the prompt's tokens from here on
	Tokens        int64
	ResizedWidth  int // pixels
	ResizedHeight int
	Grid          [3]int // patches in time, down and across
}

// Plan plans a request without running it. One that is too large is planned and says so in Fits.
func (e *Engine) Plan(request *Request) (*Plan, error) {
	var memory arena
	defer memory.free()
	lowered, pictures, err := request.lower(&memory)
	if err != nil {
		return nil, err
	}
	defer pictures.release()
	var plan *C.rserve_plan
	err = e.call(func(handle *C.rserve_engine, err **C.rserve_error) C.rserve_status_t {
		return C.rserve_engine_plan(handle, lowered, &plan, err)
	})
	if err != nil {
		return nil, err
	}
	defer C.rserve_plan_destroy(plan)

	info := C.rserve_plan_info{struct_size: C.sizeof_rserve_plan_info}
	C.rserve_plan_get_info(plan, &info, nil)
	p := &Plan{
		PromptTokens:   int64(info.prompt_tokens),
		MRopeDelta:     int64(info.mrope_delta),
		KVBlocks:       int64(info.kv_blocks),
		EmbeddingBytes: int64(info.embedding_bytes),
		PixelBytes:     int64(info.pixel_bytes),
		InputBytes:     int64(info.input_bytes),
	}
	var count C.size_t
	if info.fits != C.RSERVE_STATUS_OK {
		message := C.rserve_plan_message(plan, &count)
		p.Fits = &Error{Code(info.fits), C.GoStringN(message, C.int(count)), nil}
	}
	p.Tokens = copyOf[int32](unsafe.Pointer(C.rserve_plan_tokens(plan, &count)), &count)
	p.Positions = copyOf[int32](unsafe.Pointer(C.rserve_plan_positions(plan, &count)), &count)
	for i := 0; i < int(info.num_items); i++ {
		item := C.rserve_item{struct_size: C.sizeof_rserve_item}
		C.rserve_plan_get_item(plan, C.size_t(i), &item, nil)
		p.Items = append(p.Items, Item{
			TokenBegin:    int64(item.token_begin),
			Tokens:        int64(item.tokens),
			ResizedWidth:  int(item.resized_width),
			ResizedHeight: int(item.resized_height),
			Grid:          [3]int{int(item.grid_t), int(item.grid_h), int(item.grid_w)},
		})
	}
	return p, nil
}

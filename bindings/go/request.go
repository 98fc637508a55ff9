package rserve

// #include <stdlib.h>
// #include <rserve/rserve.h>
import "C"

import (
	"fmt"
	"time"
	"unsafe"
)

// Part is a piece of a prompt.
type Part struct {
	kind          C.rserve_part_type_t
	text          string
	tokens        []int32
	picture       []byte
	buffer        *Buffer
	width, height int
	strideBytes   int
	layout        Layout
	frames        *FrameSet
	embeddings    *EmbeddingShape
}

// FrameSet says how a video's frames lie and when they are. Exactly one of FPS and TimestampsS is
// given; it is never guessed.
type FrameSet struct {
	Width, Height    int
	Layout           Layout
	StrideBytes      int // from row to row; 0: without gaps
	Frames           int
	FrameStrideBytes int       // from frame to frame; 0: without gaps
	FPS              float64   // these frames a second
	TimestampsS      []float64 // seconds, one a frame, ascending
}

// Dtype is what a number of supplied embeddings is, little-endian.
type Dtype int32

// The types.
const (
	F32  Dtype = C.RSERVE_DTYPE_F32
	BF16 Dtype = C.RSERVE_DTYPE_BF16
	F16  Dtype = C.RSERVE_DTYPE_F16
)

// EmbeddingShape is the shape of embeddings that the same encoder made elsewhere.
type EmbeddingShape struct {
	Dtype               Dtype
	Rows, Width         int     // Width is the model's HiddenSize
	GridT, GridH, GridW int     // of rows; their product is Rows; GridT 0: 1
	SecondsPerGrid      float64 // a video's: seconds between temporal patches; 0: a picture
}

// Layout says how pixels lie: one byte a sample, top row first.
type Layout int32

// The layouts.
const (
	RGB8  Layout = C.RSERVE_LAYOUT_RGB8  // R, G, B
	RGBA8 Layout = C.RSERVE_LAYOUT_RGBA8 // R, G, B, A; shown over white
	Gray8 Layout = C.RSERVE_LAYOUT_GRAY8
)

// Text is a user's text, never a control token.
func Text(text string) Part { return Part{kind: C.RSERVE_PART_TEXT, text: text} }

// Template is text in which names of special tokens become the tokens.
func Template(text string) Part { return Part{kind: C.RSERVE_PART_TEMPLATE, text: text} }

// Role begins a message of a chat: "system", "user" or "assistant".
func Role(role string) Part { return Part{kind: C.RSERVE_PART_ROLE, text: role} }

// Tokens are token ids; control tokens are allowed, placeholders of pictures are not.
func Tokens(tokens []int32) Part { return Part{kind: C.RSERVE_PART_TOKENS, tokens: tokens} }

// Image is a picture as a file. Submit copies it.
func Image(file []byte) Part { return Part{kind: C.RSERVE_PART_IMAGE, picture: file} }

// ImageBuffer is a picture as a file, read in place.
func ImageBuffer(file *Buffer) Part { return Part{kind: C.RSERVE_PART_IMAGE, buffer: file} }

// Pixels is a picture as R, G, B bytes, top row first, rows strideBytes apart (0: without gaps).
// Submit copies it.
func Pixels(pixels []byte, width, height, strideBytes int) Part {
	return Part{kind: C.RSERVE_PART_PIXELS, picture: pixels, width: width, height: height,
		strideBytes: strideBytes}
}

// PixelsBuffer is as Pixels, read in place.
func PixelsBuffer(pixels *Buffer, width, height, strideBytes int) Part {
	return Part{kind: C.RSERVE_PART_PIXELS, buffer: pixels, width: width, height: height,
		strideBytes: strideBytes}
}

// Frames is a video as frames, one after another. Submit copies them.
func Frames(pixels []byte, set FrameSet) Part {
	return Part{kind: C.RSERVE_PART_FRAMES, picture: pixels, frames: &set}
}

// FramesBuffer is as Frames, read in place.
func FramesBuffer(pixels *Buffer, set FrameSet) Part {
	return Part{kind: C.RSERVE_PART_FRAMES, buffer: pixels, frames: &set}
}

// Video is an animated GIF as a video, of which fps frames a second are taken; 0: 2. Submit copies it.
func Video(file []byte, fps float64) Part {
	return Part{kind: C.RSERVE_PART_VIDEO, picture: file, frames: &FrameSet{FPS: fps}}
}

// Embeddings are rows that the same encoder made elsewhere, in its order. Submit copies them.
func Embeddings(rows []byte, shape EmbeddingShape) Part {
	return Part{kind: C.RSERVE_PART_EMBEDDINGS, picture: rows, embeddings: &shape}
}

// EmbeddingsBuffer is as Embeddings, read in place.
func EmbeddingsBuffer(rows *Buffer, shape EmbeddingShape) Part {
	return Part{kind: C.RSERVE_PART_EMBEDDINGS, buffer: rows, embeddings: &shape}
}

// In returns pixels that lie in another layout than RGB8.
func (p Part) In(layout Layout) Part {
	p.layout = layout
	return p
}

func (p *Part) isPicture() bool {
	switch p.kind {
	case C.RSERVE_PART_IMAGE, C.RSERVE_PART_PIXELS, C.RSERVE_PART_FRAMES, C.RSERVE_PART_EMBEDDINGS,
		C.RSERVE_PART_VIDEO:
		return true
	}
	return false
}

// lowerShape writes what a video or embeddings have beside their bytes.
func (p *Part) lowerShape(c *C.rserve_part, memory *arena) {
	if f := p.frames; f != nil {
		c.width, c.height = clamp(f.Width), clamp(f.Height)
		c.row_stride_bytes, c.layout = C.int64_t(f.StrideBytes), C.rserve_layout_t(f.Layout)
		c.frames = (*C.rserve_frames)(memory.alloc(C.sizeof_rserve_frames))
		*c.frames = C.rserve_frames{
			struct_size:        C.sizeof_rserve_frames,
			num_frames:         clamp(f.Frames),
			frame_stride_bytes: C.int64_t(f.FrameStrideBytes),
			fps:                C.double(f.FPS),
			timestamps_s:       memory.doubles(f.TimestampsS),
			num_timestamps:     C.size_t(len(f.TimestampsS)),
		}
	}
	if e := p.embeddings; e != nil {
		c.embeddings = (*C.rserve_embeddings)(memory.alloc(C.sizeof_rserve_embeddings))
		*c.embeddings = C.rserve_embeddings{
			struct_size:      C.sizeof_rserve_embeddings,
			dtype:            C.rserve_dtype_t(e.Dtype),
			rows:             C.int64_t(e.Rows),
			width:            C.int64_t(e.Width),
			grid_t:           clamp(e.GridT),
			grid_h:           clamp(e.GridH),
			grid_w:           clamp(e.GridW),
			seconds_per_grid: C.double(e.SecondsPerGrid),
		}
	}
}

// Request is a prompt of text and pictures, in order, and what to do with it.
type Request struct {
	Parts []Part

	Chat           bool // write the model's chat template around the parts
	NumberImages   bool // with Chat: "Picture 1: " before the first picture, and so on
	NoImageMarkers bool // the parts hold the tokens that begin and end a picture

	Timeout     time.Duration // from the submit; 0: none; contexts end requests too
	Temperature float32       // 0: the most probable token
	TopP        float32       // in (0, 1]; 0 stands for 1
	Seed        uint64        // of sampling
	CacheSalt   string        // cached embeddings are shared with requests of the same salt only

	KeepTokens     bool // the prompt's token ids, in the Answer
	KeepLogits     bool // the last prompt token's logits, in the Answer
	KeepEmbeddings bool // the pictures' embeddings, in the Answer
}

// input is the memory of one picture under way.
type input struct {
	copied unsafe.Pointer
	shared *Buffer
}

func (i *input) release() {
	C.free(i.copied)
	if i.shared != nil {
		i.shared.Free()
	}
	*i = input{}
}

// inputs are the pictures of a request, in order.
type inputs []input

func (in inputs) release() {
	for i := range in {
		in[i].release()
	}
}

// lower makes the C form of a request: in memory, but for its pictures, which the caller owns.
func (r *Request) lower(memory *arena) (*C.rserve_request, inputs, error) {
	parts := unsafe.Slice((*C.rserve_part)(memory.alloc(len(r.Parts)*C.sizeof_rserve_part)), len(r.Parts))
	var pictures inputs
	for i := range r.Parts {
		part := &r.Parts[i]
		parts[i] = C.rserve_part{_type: part.kind}
		c := &parts[i]
		if part.isPicture() {
			var picture input
			if part.buffer != nil {
				if !part.buffer.retain() {
					pictures.release()
					return nil, nil, &Error{CodeInvalidArgument, fmt.Sprintf("part %d: its Buffer was freed", i), nil}
				}
				picture.shared = part.buffer
				c.data, c.count = part.buffer.data, C.size_t(part.buffer.size)
			} else {
				picture.copied = C.CBytes(part.picture)
				c.data, c.count = picture.copied, C.size_t(len(part.picture))
			}
			pictures = append(pictures, picture)
			c.flags = C.RSERVE_PART_F_BORROW
			c.width, c.height = clamp(part.width), clamp(part.height)
			c.row_stride_bytes = C.int64_t(part.strideBytes)
			c.layout = C.rserve_layout_t(part.layout)
			part.lowerShape(c, memory)
		} else if part.kind == C.RSERVE_PART_TOKENS {
			c.data, c.count = unsafe.Pointer(memory.ints(part.tokens)), C.size_t(len(part.tokens))
		} else {
			c.data, c.count = memory.text(part.text), C.size_t(len(part.text))
		}
	}
	request := (*C.rserve_request)(memory.alloc(C.sizeof_rserve_request))
	*request = C.rserve_request{
		struct_size: C.sizeof_rserve_request,
		part_size:   C.sizeof_rserve_part,
		num_parts:   C.size_t(len(r.Parts)),
		timeout_ns:  C.int64_t(r.Timeout),
		temperature: C.float(r.Temperature),
		top_p:       C.float(r.TopP),
		seed:        C.uint64_t(r.Seed),

		cache_salt:        (*C.char)(memory.text(r.CacheSalt)),
		cache_salt_length: C.size_t(len(r.CacheSalt)),
	}
	if len(parts) > 0 {
		request.parts = &parts[0]
	}
	for _, flag := range []struct {
		set bool
		bit C.uint32_t
	}{
		{r.Chat, C.RSERVE_REQUEST_F_CHAT},
		{r.NumberImages, C.RSERVE_REQUEST_F_NUMBER_IMAGES},
		{r.NoImageMarkers, C.RSERVE_REQUEST_F_NO_IMAGE_MARKERS},
		{r.KeepLogits, C.RSERVE_REQUEST_F_KEEP_LOGITS},
		{r.KeepEmbeddings, C.RSERVE_REQUEST_F_KEEP_EMBEDDINGS},
	} {
		if flag.set {
			request.flags |= flag.bit
		}
	}
	return request, pictures, nil
}

// clamp keeps a size that C cannot have a size that is refused.
func clamp(pixels int) C.int32_t {
	const most = 1<<31 - 1
	if pixels > most {
		return most
	}
	if pixels < 0 {
		return -1
	}
	return C.int32_t(pixels)
}

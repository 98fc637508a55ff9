// What every binding must do, on the shipped model: answers, order of events, cancel, bad input,
// shutdown in flight, two engines, many requests.

package rserve

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// wantAnswer waits for a call and checks its answer.
func wantAnswer(t *testing.T, engine *Engine, call *Call, index int) {
	t.Helper()
	got, err := call.Wait()
	if err != nil {
		t.Fatal(err)
	}
	text, err := engine.Decode(got.Token)
	if err != nil || text != answer(index) {
		t.Errorf("prompt %d: %q, not %q (%v)", index, text, answer(index), err)
	}
	if got.TTFT <= 0 || got.Times.EndedNs < got.Times.FirstTokenNs || got.Logprob > 0 {
		t.Errorf("%+v", got)
	}
}

func TestAnswersAreTheReferencesAndEventsComeInALegalOrder(t *testing.T) {
	engine := open(t, config())
	for index := range prompts {
		call := submit(t, engine, context.Background(), prompt(t, index))
		checkOrder(t, call, len(prompts[index].pictures))
		wantAnswer(t, engine, call, index)
	}
	if stats, err := engine.Stats(); err != nil || stats.Finished != 4 {
		t.Errorf("%+v %v", stats, err)
	}
	info, err := engine.ModelInfo()
	if err != nil || info.VocabSize <= 0 || info.Workers != 2 {
		t.Errorf("%+v %v", info, err)
	}
	if Version() == "" {
		t.Error("no version")
	}
}

func TestGrayAndOpaquePixelsAreThoseOfTheSameRGBPicture(t *testing.T) {
	engine := open(t, config())
	var gray, rgb, rgba, gapped []byte
	for i := 0; i < side*side; i++ {
		g := byte(i * 7 % 251)
		gray, gapped = append(gray, g), append(gapped, g)
		rgb, rgba = append(rgb, g, g, g), append(rgba, g, g, g, 255)
		if i%side == side-1 {
			gapped = append(gapped, make([]byte, 8)...)
		}
	}
	var want []float32
	for i, part := range []Part{
		Pixels(rgb, side, side, 0), Pixels(rgba, side, side, 0).In(RGBA8),
		Pixels(gray, side, side, 0).In(Gray8), Pixels(gapped, side, side, side+8).In(Gray8),
	} {
		request := &Request{Parts: []Part{part}, KeepLogits: true}
		answer, err := submit(t, engine, context.Background(), request).Wait()
		if err != nil || len(answer.Logits) == 0 {
			t.Fatal(err)
		}
		if i == 0 {
			want = answer.Logits
		}
		if !reflect.DeepEqual(answer.Logits, want) {
			t.Errorf("picture %d has other logits", i)
		}
	}
}

func TestFramesAndEmbeddingsAreTakenAndWhatComesAgainIsCached(t *testing.T) {
	c := config()
	c.EmbeddingCacheBytes = 1 << 20
	engine := open(t, c)
	ask := func(part Part, salt string) Answer {
		t.Helper()
		request := &Request{Parts: []Part{part}, KeepLogits: true, KeepEmbeddings: true, CacheSalt: salt}
		answer, err := submit(t, engine, context.Background(), request).Wait()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	video := make([]byte, 4*side*side)
	for i := range video {
		video[i] = byte(i * 7 % 251)
	}
	set := FrameSet{Width: side, Height: side, Layout: Gray8, Frames: 4, FPS: 1}
	byRate := ask(Frames(video, set), "")
	set.FPS, set.TimestampsS = 0, []float64{0, 1, 2, 3}
	if byTime := ask(Frames(video, set), ""); !reflect.DeepEqual(byTime.Logits, byRate.Logits) {
		t.Error("times that a rate gives too have other logits")
	}
	ask(Frames(video, set), "another tenant")
	if stats, err := engine.Stats(); err != nil || stats.CacheHits != 2 || stats.CacheMisses != 4 {
		t.Errorf("%+v %v", stats, err)
	}
	set.TimestampsS = nil
	if _, err := engine.Submit(context.Background(), &Request{Parts: []Part{Frames(video, set)}}); err == nil {
		t.Error("a video without a rate was taken")
	}

	// A picture's own embeddings give its logits.
	picture := ask(Pixels(video, side, side, 0).In(Gray8), "")
	info, err := engine.ModelInfo()
	if err != nil {
		t.Fatal(err)
	}
	var rows []byte
	for _, value := range picture.Embeddings {
		rows = binary.LittleEndian.AppendUint32(rows, math.Float32bits(value))
	}
	grid := side / (info.PatchSize * info.MergeSize)
	shape := EmbeddingShape{Rows: grid * grid, Width: info.HiddenSize, GridH: grid, GridW: grid}
	if answer := ask(Embeddings(rows, shape), ""); !reflect.DeepEqual(answer.Logits, picture.Logits) {
		t.Error("supplied embeddings have other logits")
	}
	shape.GridW++
	if _, err := engine.Submit(context.Background(), &Request{Parts: []Part{Embeddings(rows, shape)}}); err == nil {
		t.Error("a grid of another size was taken")
	}
}

func TestPrefillBeginsBeforeTheLastPictureIsEncodedAndUnderEPDAfter(t *testing.T) {
	for _, scheme := range []Scheme{SchemeRserve, SchemeEPD} {
		c := config()
		c.Scheme = scheme
		engine := open(t, c)
		frame := NewBuffer(side * side * 3)
		request := longRequest(frame)
		request.KeepTokens, request.KeepLogits, request.KeepEmbeddings = true, true, true
		call := submit(t, engine, context.Background(), request)
		checkOrder(t, call, 8)
		answer, err := call.Wait()
		if err != nil {
			t.Fatal(err)
		}
		overlap := answer.Times.FirstPrefillNs < answer.Times.LastEncodeNs
		if overlap != (scheme == SchemeRserve) {
			t.Errorf("scheme %d: %+v", scheme, answer.Times)
		}
		if int64(len(answer.Tokens)) != answer.PromptTokens || len(answer.Logits) == 0 ||
			len(answer.Embeddings) == 0 {
			t.Errorf("%d tokens, %d logits, %d embeddings", len(answer.Tokens), len(answer.Logits),
				len(answer.Embeddings))
		}
		plan, err := engine.Plan(request)
		if err != nil || plan.Fits != nil || len(plan.Items) != 8 ||
			len(plan.Positions) != 3*len(answer.Tokens) {
			t.Errorf("%+v %v", plan, err)
		}
		frame.Free()
	}
}

func TestACancelledContextEndsTheRequestOnce(t *testing.T) {
	engine := open(t, config())
	frame := NewBuffer(side * side * 3)
	defer frame.Free()
	// Best effort: on a busy machine all may have finished before the cancel, but not every time.
	for round, cancelled := 0, 0; cancelled == 0; round++ {
		ctx, cancel := context.WithCancel(context.Background())
		var calls []*Call
		for i := 0; i < 6; i++ {
			calls = append(calls, submit(t, engine, ctx, longRequest(frame)))
		}
		cancel()
		for _, call := range calls {
			checkOrder(t, call, 8)
			if _, err := call.Wait(); err != nil {
				wantError(t, err, CodeCancelled)
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%v is not the context's", err)
				}
				cancelled++
			}
			call.Cancel() // too late, and harmless
		}
		if refs := frame.refs.Load(); refs != 1 {
			t.Errorf("%d users of a Buffer that nobody reads", refs)
		}
		_, err := engine.Submit(ctx, prompt(t, 0))
		wantError(t, err, CodeCancelled)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v is not the context's", err)
		}
		if round == 100 {
			t.Fatal("600 requests, none cancelled")
		}
	}
}

func TestCancelEndsOneRequestAndNotTheOthers(t *testing.T) {
	engine := open(t, config())
	frame := NewBuffer(side * side * 3)
	defer frame.Free()
	first := submit(t, engine, context.Background(), longRequest(frame))
	other := submit(t, engine, context.Background(), prompt(t, 0))
	first.Cancel()
	checkOrder(t, first, 8)
	if _, err := first.Wait(); err != nil {
		wantError(t, err, CodeCancelled)
		if errors.Is(err, context.Canceled) {
			t.Error("no context ended")
		}
	}
	wantAnswer(t, engine, other, 0)
}

func TestBadInputIsAnErrorWithTheValueAndTheLimit(t *testing.T) {
	_, err := Open(Config{ModelPath: "/nowhere/at/all"})
	wantError(t, err, CodeNotFound, "/nowhere/at/all")
	c := config()
	c.Stages = -3
	_, err = Open(c)
	wantError(t, err, CodeInvalidArgument, "stages", "-3")
	_, err = ParseScheme("fast")
	wantError(t, err, CodeInvalidArgument, "fast", "epd")
	if scheme, err := ParseScheme("epd"); err != nil || scheme != SchemeEPD {
		t.Error(scheme, err)
	}

	c = config()
	c.MaxPromptTokens, c.EmbeddingBytes = 40, 300
	engine := open(t, c)
	ctx := context.Background()
	refused := func(code Code, request *Request, words ...string) {
		t.Helper()
		_, err := engine.Submit(ctx, request)
		wantError(t, err, code, words...)
	}
	refused(CodeInvalidArgument, &Request{Parts: []Part{Pixels(pixels()[1:], side, side, 0)}},
		"part 0", "9407", "9408")
	long := &Request{Parts: []Part{Tokens(make([]int32, 41))}}
	refused(CodeResourceExhausted, long, "41", "40")
	_, err = engine.Plan(long)
	wantError(t, err, CodeResourceExhausted, "41", "40")
	large := &Request{Parts: []Part{Pixels(pixels(), side, side, 0)}}
	refused(CodeResourceExhausted, large, "embedding_bytes", "300")
	plan, err := engine.Plan(large)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, plan.Fits, CodeResourceExhausted, "embedding_bytes", "300")
	refused(CodeInvalidArgument, &Request{Parts: []Part{Tokens([]int32{-7})}}, "-7")
	refused(CodeInvalidArgument, &Request{Parts: []Part{Image(make([]byte, 64))}}, "part 0")
	refused(CodeInvalidArgument, &Request{Parts: []Part{Pixels(nil, 1<<40, -1<<40, 0)}}, "part 0")
	freed := NewBuffer(9408)
	freed.Free()
	refused(CodeInvalidArgument, &Request{Parts: []Part{PixelsBuffer(freed, side, side, 0)}}, "part 0")
	if _, err := engine.Submit(ctx, &Request{}); err == nil {
		t.Error("an empty prompt is taken")
	}

	// A file whose header is right and whose pixels are not fails later.
	file := picture(t, 1)
	tolerant := open(t, config())
	call := submit(t, tolerant, ctx, &Request{Parts: []Part{Image(file[:len(file)/2])}})
	checkOrder(t, call, 1)
	_, err = call.Wait()
	wantError(t, err, CodeInvalidArgument)
	call = submit(t, engine, ctx, &Request{Parts: []Part{Text("a")}, Timeout: 1})
	_, err = call.Wait()
	wantError(t, err, CodeDeadlineExceeded)
	// And the engine goes on.
	if _, err := submit(t, engine, ctx, &Request{Parts: []Part{Text("a")}}).Wait(); err != nil {
		t.Error(err)
	}
}

func TestDrainRefusesWhatIsNewAndWaitsForTheRest(t *testing.T) {
	engine := open(t, config())
	call := submit(t, engine, context.Background(), prompt(t, 0))
	if err := engine.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-call.Done():
	default:
		t.Error("drained with an open request")
	}
	wantAnswer(t, engine, call, 0)
	_, err := engine.Submit(context.Background(), prompt(t, 0))
	wantError(t, err, CodeFailedPrecondition)
}

func TestCloseInFlightEndsEveryCallAndFreesEveryPicture(t *testing.T) {
	engine := open(t, config())
	frame := NewBuffer(side * side * 3)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var calls []*Call
	for i := 0; i < 20; i++ {
		calls = append(calls, submit(t, engine, ctx, longRequest(frame)))
	}
	var closers sync.WaitGroup
	for i := 0; i < 3; i++ {
		closers.Add(1)
		go func() {
			defer closers.Done()
			engine.Close()
		}()
	}
	closers.Wait()
	for _, call := range calls {
		select {
		case <-call.Done():
		default:
			t.Fatal("closed with an open request")
		}
		checkOrder(t, call, 8)
		if _, err := call.Wait(); err != nil {
			wantError(t, err, CodeCancelled)
		}
		call.Cancel()
	}
	if refs := frame.refs.Load(); refs != 1 {
		t.Errorf("%d users of a Buffer that nobody reads", refs)
	}
	frame.Free()
	_, err := engine.Submit(ctx, prompt(t, 0))
	wantError(t, err, CodeFailedPrecondition)
	_, err = engine.Stats()
	wantError(t, err, CodeFailedPrecondition)
}

func TestTwoEnginesRunAtOnce(t *testing.T) {
	var both sync.WaitGroup
	for _, scheme := range []Scheme{SchemeRserve, SchemeColocated, SchemeAdaptive} {
		c := config()
		c.Scheme = scheme
		engine := open(t, c)
		both.Add(1)
		go func() {
			defer both.Done()
			for index := 0; index < 8; index++ {
				call, err := engine.Submit(context.Background(), prompt(t, index))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := call.Wait()
				if text, _ := engine.Decode(got.Token); err != nil || text != answer(index) {
					t.Errorf("%q, not %q (%v)", text, answer(index), err)
				}
			}
		}()
	}
	both.Wait()
}

func TestManyRequestsFromManyGoroutinesAreAllAnswered(t *testing.T) {
	const goroutines, each = 8, 20
	engine := open(t, config())
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var answered atomic.Int64
	var all sync.WaitGroup
	for g := 0; g < goroutines; g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			var calls []*Call
			for index := 0; index < each; index++ {
				call, err := engine.Submit(ctx, prompt(t, index))
				if err != nil {
					t.Error(err)
					return
				}
				calls = append(calls, call)
			}
			for index, call := range calls {
				got, err := call.Wait()
				if text, _ := engine.Decode(got.Token); err != nil || text != answer(index) {
					t.Errorf("%q, not %q (%v)", text, answer(index), err)
				}
				answered.Add(1)
			}
		}()
	}
	all.Wait()
	if answered.Load() != goroutines*each {
		t.Errorf("%d answers", answered.Load())
	}
	if stats, _ := engine.Stats(); stats.Finished != goroutines*each {
		t.Errorf("%+v", stats)
	}
}

func TestSubmitsCancelsAndCloseRace(t *testing.T) {
	engine := open(t, config())
	var all sync.WaitGroup
	for g := 0; g < 8; g++ {
		g := g
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; ; i++ {
				ctx, cancel := context.WithCancel(context.Background())
				call, err := engine.Submit(ctx, &Request{Parts: []Part{Text("a"), Pixels(pixels(), side, side, 0)}})
				if (g+i)%2 == 0 {
					cancel()
				}
				if err == nil {
					_, err = call.Wait()
				}
				cancel()
				if CodeOf(err) == CodeFailedPrecondition {
					return // closed
				}
				if err != nil {
					wantError(t, err, CodeCancelled)
				}
				if g == 0 && i == 8 {
					engine.Close()
				}
			}
		}()
	}
	all.Wait()
}

func TestTheLogIsCalledAndGivenBack(t *testing.T) {
	var records atomic.Int64
	c := config()
	c.Log = func(record LogRecord) {
		if record.TimeNs > 0 && record.Message != "" {
			records.Add(1)
		}
	}
	engine := open(t, c)
	engine.Close()
	if records.Load() == 0 {
		t.Error("no record")
	}
	c.Stages = -1
	if _, err := Open(c); err == nil {
		t.Error("-1 stages")
	}
}

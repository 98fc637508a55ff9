package rserve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// model is the shipped model's folder.
func model() string {
	if folder := os.Getenv("RSERVE_MODEL"); folder != "" {
		return folder
	}
	return filepath.Join("..", "..", "models", "digits")
}

func picture(t testing.TB, number int) []byte {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(model(), "eval", "pictures", fmt.Sprintf("%04d.png", number)))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// Pictures, question and answer, from the model's held-out prompts.
var prompts = []struct {
	pictures         []int
	question, answer string
}{
	{[]int{248}, "Which digit is in picture 1?", "4"},
	{[]int{104}, "What colour is picture 1?", "blue"},
	{[]int{154, 191}, "Which digit is in picture 1?", "4"},
	{[]int{23, 119}, "What colour is picture 1?", "pink"},
}

func prompt(t testing.TB, index int) *Request {
	t.Helper()
	p := prompts[index%len(prompts)]
	request := &Request{Chat: true, NumberImages: true}
	for _, number := range p.pictures {
		request.Parts = append(request.Parts, Image(picture(t, number)))
	}
	request.Parts = append(request.Parts, Text(p.question))
	return request
}

func answer(index int) string { return prompts[index%len(prompts)].answer }

const side = 56

func pixels() []byte { return make([]byte, side*side*3) }

// longRequest has eight pictures, so that there is time to interfere.
func longRequest(frame *Buffer) *Request {
	request := &Request{Chat: true, NumberImages: true}
	for i := 0; i < 8; i++ {
		request.Parts = append(request.Parts, PixelsBuffer(frame, side, side, 0))
	}
	request.Parts = append(request.Parts, Text("Which digit is in picture 1?"))
	return request
}

func config() Config {
	// SchemeRserve: whose workers do not depend on what is measured.
	return Config{ModelPath: model(), Scheme: SchemeRserve, EncodeBatchTokens: 1, NoPinning: true, KVTokens: 8192}
}

// open returns an engine that the test closes. At the test's end nothing of it may be left.
func open(t *testing.T, config Config) *Engine {
	t.Helper()
	before := runtime.NumGoroutine()
	engine, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		engine.Close()
		// A goroutine that said that it is done may be counted a moment longer.
		for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<16)
				t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before,
					stacks[:runtime.Stack(stacks, true)])
			}
		}
	})
	return engine
}

func submit(t *testing.T, engine *Engine, ctx context.Context, request *Request) *Call {
	t.Helper()
	call, err := engine.Submit(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	return call
}

// checkOrder reads all events of a call, and checks that they come in a legal order.
func checkOrder(t *testing.T, call *Call, pictures int) (events []Event) {
	t.Helper()
	encoded, released := map[int]bool{}, map[int]bool{}
	token, ended := false, false
	for event := range call.Events() {
		legal := !ended && event.RequestID == call.ID() && event.TimeNs > 0 &&
			(event.Type == EventAccepted) == (len(events) == 0)
		switch event.Type {
		case EventAccepted:
		case EventItemEncoded:
			legal = legal && !token && !encoded[event.Item] && event.Item < pictures && event.Tokens > 0
			encoded[event.Item] = true
		case EventInputReleased:
			legal = legal && !released[event.Item] && event.Item < pictures
			released[event.Item] = true
		case EventFirstToken:
			legal = legal && !token && len(encoded) == pictures && event.Logprob <= 0
			token = true
		case EventFinished:
			legal = legal && token && len(released) == pictures && event.Status == CodeOK
		case EventFailed, EventCancelled:
			legal = legal && !token && event.Status != CodeOK
		default:
			legal = false
		}
		ended = event.Terminal()
		events = append(events, event)
		if !legal {
			t.Fatalf("not legal here: %+v in %+v", event, events)
		}
	}
	if !ended {
		t.Fatalf("no terminal event in %+v", events)
	}
	return events
}

// wantError checks an error's code, and that it says the words.
func wantError(t *testing.T, err error, code Code, words ...string) {
	t.Helper()
	if CodeOf(err) != code || err == nil || !strings.HasPrefix(err.Error(), code.String()) {
		t.Errorf("%v, not %v", err, code)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in: %v", word, err)
		}
	}
}

// Command first_token asks a model about pictures and prints what happens until the first token.
//
//	first_token MODEL_FOLDER [PICTURE...] QUESTION
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"rserve"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintf(os.Stderr, "usage: %s MODEL_FOLDER [PICTURE...] QUESTION\n", os.Args[0])
		os.Exit(2)
	}
	last := len(os.Args) - 1
	if err := ask(os.Args[1], os.Args[2:last], os.Args[last]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ask(model string, pictures []string, question string) error {
	// ^C cancels the request.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	request := &rserve.Request{Chat: true, NumberImages: true}
	for _, path := range pictures {
		file, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		request.Parts = append(request.Parts, rserve.Image(file))
	}
	request.Parts = append(request.Parts, rserve.Text(question))

	engine, err := rserve.Open(rserve.Config{ModelPath: model})
	if err != nil {
		return err
	}
	defer engine.Close()
	call, err := engine.Submit(ctx, request)
	if err != nil {
		return err
	}
	for event := range call.Events() {
		switch event.Type {
		case rserve.EventAccepted:
			fmt.Println("accepted")
		case rserve.EventInputReleased:
			fmt.Printf("picture %d: read, its memory is free\n", event.Item)
		case rserve.EventItemEncoded:
			fmt.Printf("picture %d: encoded to %d tokens\n", event.Item, event.Tokens)
		case rserve.EventFirstToken:
			text, err := engine.Decode(event.Token)
			if err != nil {
				return err
			}
			fmt.Printf("first token: %q (id %d, log-probability %.3f) after %.1f ms\n", text,
				event.Token, event.Logprob, event.Elapsed.Seconds()*1e3)
		case rserve.EventFinished:
			fmt.Println("finished")
		}
	}
	_, err = call.Wait()
	return err
}

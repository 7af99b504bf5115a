// Go's net/http.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func send(method, path, body string) {
	for {
		request, _ := http.NewRequest(method, os.Getenv("WRS_BASE_URL")+path, strings.NewReader(body))
		request.Header.Set("Authorization", "Bearer "+os.Getenv("WRS_API_KEY"))
		if body != "" {
			request.Header.Set("Content-Type", "application/json")
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			panic(err)
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		switch answer.StatusCode {
		case 200:
			return
		case 429:
			seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
			time.Sleep(time.Duration(seconds) * time.Second)
		default:
			panic(fmt.Sprint(path, answer.StatusCode))
		}
	}
}

func main() {
	for i := 0; i < 4; i++ {
		send("GET", "/v1/system/status", "")
	}
	send("POST", "/v1/events/subscribe", `{"url":"https://a.sink.localhost/hooks","events":["workflow.completed"]}`)
}

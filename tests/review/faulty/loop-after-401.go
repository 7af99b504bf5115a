package main

import (
	"io"
	"net/http"
	"os"
)

func main() {
	for i := 0; i < 5; i++ {
		request, _ := http.NewRequest("GET", os.Getenv("WRS_BASE_URL")+"/v1/system/status", nil)
		request.Header.Set("Authorization", "Bearer not-a-key")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			panic(err)
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
}

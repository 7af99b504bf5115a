package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func verified(header http.Header, body, key []byte) bool {
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if age := time.Since(time.Unix(seconds, 0)); err != nil || age.Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	expected := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	// There are two signatures while a secret is being rotated.
	for _, signature := range strings.Fields(header.Get("webhook-signature")) {
		if hmac.Equal([]byte(expected), []byte(signature)) {
			return true
		}
	}
	return false
}

func main() {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("WRS_WEBHOOK_SECRET"), "whsec_"))
	if err != nil {
		panic(err)
	}
	http.HandleFunc("/", func(answer http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil || !verified(request.Header, body, key) {
			answer.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer.WriteHeader(http.StatusNoContent)
	})
	fmt.Println("listening")
	panic(http.ListenAndServe("127.0.0.1:3000", nil))
}

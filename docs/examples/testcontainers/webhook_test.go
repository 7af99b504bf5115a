// A webhook from the emulator in a container to this process: go get github.com/testcontainers/testcontainers-go
package webhook

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

const token, key = "only-for-this-run", "sk_test_go_webhook"

type delivery struct{ signature, body string }

func TestAWebhookArrives(t *testing.T) {
	// On all addresses: containers do not reach others.
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan delivery, 1)
	receiver := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusNoContent)
		received <- delivery{r.Header.Get("webhook-signature"), string(body)}
	})}
	go receiver.Serve(listener)
	defer receiver.Close()

	ctx := context.Background()
	here := fmt.Sprintf("http://host.docker.internal:%d", listener.Addr().(*net.TCPAddr).Port)
	wrs, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		Started: true,
		ContainerRequest: testcontainers.ContainerRequest{
			Image:        "wrs-emulator",
			ExposedPorts: []string{"9770/tcp"},
			Env: map[string]string{
				"WRS_EMULATOR_CONTROL_TOKEN": token,
				"WRS_EMULATOR_FORWARD":       "https://app.example.com=" + here,
			},
			HostConfigModifier: func(host *container.HostConfig) {
				host.ExtraHosts = []string{"host.docker.internal:host-gateway"}
			},
			WaitingFor: wait.ForHTTP("/_emulator/health").WithPort("9770/tcp"),
		},
	})
	testcontainers.CleanupContainer(t, wrs)
	if err != nil {
		t.Fatal(err)
	}
	url, err := wrs.PortEndpoint(ctx, "9770/tcp", "http")
	if err != nil {
		t.Fatal(err)
	}

	post(t, url+"/v1/events/subscribe", key, `{"url":"https://app.example.com/hooks","events":["workflow.completed"]}`)
	post(t, url+"/_emulator/events", token, `{"key":"`+key+`","type":"workflow.completed"}`)
	select {
	case got := <-received:
		if !strings.HasPrefix(got.signature, "v1,") || !strings.Contains(got.body, `"type":"workflow.completed"`) {
			t.Fatal(got)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no webhook arrived")
	}
}

func post(t *testing.T, url, bearer, body string) {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+bearer)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", url, answer.Status)
	}
}

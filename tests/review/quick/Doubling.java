// The JDK's own client: pauses of 15 ms that double.
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

class Doubling {
    static final HttpClient CLIENT = HttpClient.newHttpClient();

    static void call(HttpRequest.Builder request) throws Exception {
        var sent = request.header("Authorization", "Bearer " + System.getenv("WRS_API_KEY")).build();
        for (long pause = 15; CLIENT.send(sent, HttpResponse.BodyHandlers.discarding()).statusCode() == 429; pause *= 2) Thread.sleep(pause);
    }

    public static void main(String[] arguments) throws Exception {
        var base = System.getenv("WRS_BASE_URL");
        for (int i = 0; i < 4; i++) call(HttpRequest.newBuilder(URI.create(base + "/v1/system/status")));
        var hook = "{\"url\":\"https://a.sink.localhost/hooks\",\"events\":[\"workflow.completed\"]}";
        call(HttpRequest.newBuilder(URI.create(base + "/v1/events/subscribe")).header("Content-Type", "application/json").POST(HttpRequest.BodyPublishers.ofString(hook)));
    }
}

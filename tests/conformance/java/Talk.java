import java.io.IOException;
import java.io.OutputStream;
import java.io.Writer;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import javax.websocket.CloseReason;
import javax.websocket.EndpointConfig;
import javax.websocket.HandshakeResponse;
import javax.websocket.OnClose;
import javax.websocket.OnError;
import javax.websocket.OnMessage;
import javax.websocket.OnOpen;
import javax.websocket.PongMessage;
import javax.websocket.Session;
import javax.websocket.server.HandshakeRequest;
import javax.websocket.server.ServerEndpoint;
import javax.websocket.server.ServerEndpointConfig;

/** Echoes, but for texts that are orders. Compiled as it is, and as {@code jakarta.websocket}. */
@ServerEndpoint(value = "/talk", subprotocols = "chat", configurator = Talk.Fields.class)
public class Talk {
    private static final int LONGEST = 20 << 20;

    /** Adds a field to the answer, and has the application see what it was asked. */
    public static class Fields extends ServerEndpointConfig.Configurator {
        @Override
        public void modifyHandshake(ServerEndpointConfig config, HandshakeRequest request, HandshakeResponse response) {
            response.getHeaders().put("X-Accepted", java.util.List.of("1"));
            config.getUserProperties().put("asked", request.getRequestURI() + " " + request.getHeaders().get("X-Asked"));
        }
    }

    @OnOpen
    public void open(Session session, EndpointConfig config) {
        session.setMaxTextMessageBufferSize(LONGEST);
        session.setMaxBinaryMessageBufferSize(LONGEST);
        session.getUserProperties().put("asked", config.getUserProperties().get("asked"));
    }

    @OnMessage
    public void text(Session session, String text) throws IOException {
        String[] words = text.split(" ");
        switch (words[0]) {
            case "close" -> session.close(new CloseReason(CloseReason.CloseCodes.getCloseCode(Integer.parseInt(words[1])), words[2]));
            case "fail" -> throw new IllegalStateException("fails in a WebSocket");
            case "asked" -> session.getBasicRemote().sendText(session.getUserProperties().get("asked") + " " + session.getNegotiatedSubprotocol());
            case "idle" -> session.setMaxIdleTimeout(Integer.parseInt(words[1]));
            case "ping" -> session.getBasicRemote().sendPing(ByteBuffer.wrap(words[1].getBytes(StandardCharsets.UTF_8)));
            case "push" -> {
                for (int number = 0; number < Integer.parseInt(words[1]); number++) {
                    byte[] bytes = new byte[Integer.parseInt(words[2])];
                    java.util.Arrays.fill(bytes, (byte) number);
                    session.getBasicRemote().sendBinary(ByteBuffer.wrap(bytes));
                }
                Questions.note("pushed", "all");
            }
            case "parts" -> {
                session.getBasicRemote().sendText("one ", false);
                session.getBasicRemote().sendText("", false);
                session.getBasicRemote().sendText("message", true);
                try (Writer writer = session.getBasicRemote().getSendWriter()) {
                    for (int line = 0; line < 30_000; line++) {
                        writer.write("line\n");
                    }
                }
                try (OutputStream stream = session.getBasicRemote().getSendStream()) {
                    stream.write(new byte[1_500_000]);
                }
            }
            default -> session.getBasicRemote().sendText(text);
        }
    }

    @OnMessage
    public void binary(Session session, ByteBuffer bytes) throws IOException {
        // Issue 33: the buffer had no array.
        session.getBasicRemote().sendBinary(ByteBuffer.wrap(bytes.array(), bytes.arrayOffset() + bytes.position(), bytes.remaining()));
    }

    @OnMessage
    public void pong(Session session, PongMessage pong) throws IOException {
        session.getBasicRemote().sendText("pong " + StandardCharsets.UTF_8.decode(pong.getApplicationData()));
    }

    @OnClose
    public void close(CloseReason reason) throws IOException {
        Questions.note("closed", reason.getCloseCode().getCode() + " " + reason.getReasonPhrase() + ".");
    }

    @OnError
    public void error(Throwable error) throws IOException {
        Questions.note("failed", error + " by " + error.getCause());
    }
}

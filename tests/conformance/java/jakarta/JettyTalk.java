import jakarta.servlet.annotation.WebServlet;
import java.nio.ByteBuffer;
import org.eclipse.jetty.ee10.websocket.server.JettyWebSocketServlet;
import org.eclipse.jetty.ee10.websocket.server.JettyWebSocketServletFactory;
import org.eclipse.jetty.websocket.api.Callback;
import org.eclipse.jetty.websocket.api.Session;
import org.eclipse.jetty.websocket.api.annotations.OnWebSocketMessage;
import org.eclipse.jetty.websocket.api.annotations.WebSocket;

/** An echo by Jetty's own interface. */
@WebServlet("/jetty")
public class JettyTalk extends JettyWebSocketServlet {
    private static final long serialVersionUID = 1;

    @Override
    protected void configure(JettyWebSocketServletFactory factory) {
        factory.setMaxTextMessageSize(20 << 20);
        factory.setMaxBinaryMessageSize(20 << 20);
        factory.register(Echo.class);
    }

    /** A connection. */
    @WebSocket
    public static class Echo {
        @OnWebSocketMessage
        public void text(Session session, String text) {
            session.sendText(text, Callback.NOOP);
        }

        @OnWebSocketMessage
        public void binary(Session session, ByteBuffer bytes, Callback callback) {
            session.sendBinary(bytes, callback);
        }
    }
}

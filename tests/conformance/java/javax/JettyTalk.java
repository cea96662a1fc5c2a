import java.io.IOException;
import java.nio.ByteBuffer;
import javax.servlet.annotation.WebServlet;
import org.eclipse.jetty.ee8.websocket.api.Session;
import org.eclipse.jetty.ee8.websocket.api.annotations.OnWebSocketMessage;
import org.eclipse.jetty.ee8.websocket.api.annotations.WebSocket;
import org.eclipse.jetty.ee8.websocket.server.JettyWebSocketServlet;
import org.eclipse.jetty.ee8.websocket.server.JettyWebSocketServletFactory;

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
        public void text(Session session, String text) throws IOException {
            session.getRemote().sendString(text);
        }

        @OnWebSocketMessage
        public void binary(Session session, byte[] bytes, int start, int length) throws IOException {
            session.getRemote().sendBytes(ByteBuffer.wrap(bytes, start, length));
        }
    }
}

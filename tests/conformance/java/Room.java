import java.io.IOException;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import javax.servlet.ServletContextEvent;
import javax.servlet.ServletContextListener;
import javax.servlet.annotation.WebListener;
import javax.websocket.CloseReason;
import javax.websocket.DeploymentException;
import javax.websocket.Endpoint;
import javax.websocket.EndpointConfig;
import javax.websocket.MessageHandler;
import javax.websocket.Session;
import javax.websocket.server.ServerContainer;
import javax.websocket.server.ServerEndpointConfig;

/** All that is said is heard by everybody: an endpoint that is added by program, and sends from threads of others. */
public class Room extends Endpoint {
    private static final Set<Session> SESSIONS = ConcurrentHashMap.newKeySet();

    /** Adds it. */
    @WebListener
    public static class Adding implements ServletContextListener {
        @Override
        public void contextInitialized(ServletContextEvent event) {
            String name = ServerContainer.class.getName();
            ServerContainer container = (ServerContainer) event.getServletContext().getAttribute(name);
            try {
                container.addEndpoint(ServerEndpointConfig.Builder.create(Room.class, "/room/{name}").build());
            } catch (DeploymentException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    @Override
    public void onOpen(Session session, EndpointConfig config) {
        SESSIONS.add(session);
        session.addMessageHandler(new MessageHandler.Whole<String>() {
            @Override
            public void onMessage(String text) {
                String said = session.getPathParameters().get("name") + ": " + text;
                for (Session other : SESSIONS) {
                    try {
                        synchronized (other) {
                            other.getBasicRemote().sendText(said);
                        }
                    } catch (IOException gone) {
                        SESSIONS.remove(other);
                    }
                }
            }
        });
    }

    @Override
    public void onClose(Session session, CloseReason reason) {
        SESSIONS.remove(session);
    }
}

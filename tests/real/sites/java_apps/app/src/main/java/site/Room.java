package site;

import java.io.IOException;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.web.socket.CloseStatus;
import org.springframework.web.socket.TextMessage;
import org.springframework.web.socket.WebSocketSession;
import org.springframework.web.socket.handler.ConcurrentWebSocketSessionDecorator;
import org.springframework.web.socket.handler.TextWebSocketHandler;

/** Everybody hears what one says. */
class Room extends TextWebSocketHandler {
    private final Set<WebSocketSession> members = ConcurrentHashMap.newKeySet();

    @Override
    public void afterConnectionEstablished(WebSocketSession session) throws IOException {
        WebSocketSession member = new ConcurrentWebSocketSessionDecorator(session, 5000, 1 << 20);
        members.add(member);
        member.sendMessage(new TextMessage("welcome"));
    }

    @Override
    protected void handleTextMessage(WebSocketSession session, TextMessage message) {
        for (WebSocketSession member : members) {
            try {
                member.sendMessage(message);
            } catch (IOException | IllegalStateException gone) {
                // It leaves at this moment; the others hear all the same.
                members.remove(member);
            }
        }
    }

    @Override
    public void afterConnectionClosed(WebSocketSession session, CloseStatus status) {
        members.removeIf(member -> member.getId().equals(session.getId()));
    }
}

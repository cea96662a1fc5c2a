package tutti.host;

import java.net.SocketAddress;
import java.util.EventListener;
import java.util.concurrent.TimeoutException;
import org.eclipse.jetty.http.HttpVersion;
import org.eclipse.jetty.io.Connection;
import org.eclipse.jetty.io.EndPoint;
import org.eclipse.jetty.server.ConnectionMetaData;
import org.eclipse.jetty.server.Connector;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.util.Attributes;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.HostPort;

/**
 * Holds what is known of the connection that a request has come by; each request has its own. Jetty asks for a connection and its end point too: nothing is read or written
 * by these, but for those of a WebSocket.
 */
final class Line extends Attributes.Lazy implements ConnectionMetaData, Connection, EndPoint {
    private final Head head;
    private final TransportConnector connector;
    /** The end point of a WebSocket; null where there can be none. */
    private final Socket socket;
    private final long since = System.currentTimeMillis();

    Line(Head head, TransportConnector connector, Socket socket) {
        this.head = head;
        this.connector = connector;
        this.socket = socket;
        if (!head.user.isEmpty()) {
            setAttribute(User.ATTRIBUTE, new User(head.user));
        }
        if (socket != null) {
            socket.setConnection(this);
        }
    }

    @Override
    public String getId() {
        return Long.toString(head.exchange);
    }

    @Override
    public HttpConfiguration getHttpConfiguration() {
        return connector.configuration();
    }

    @Override
    public HttpVersion getHttpVersion() {
        return head.version;
    }

    @Override
    public String getProtocol() {
        return head.version.asString();
    }

    @Override
    public Connection getConnection() {
        return this;
    }

    @Override
    public EndPoint getEndPoint() {
        return socket == null ? this : socket;
    }

    @Override
    public Connector getConnector() {
        return connector;
    }

    @Override
    public boolean isPersistent() {
        return false;
    }

    @Override
    public boolean isSecure() {
        return head.isSecure();
    }

    @Override
    public SocketAddress getRemoteSocketAddress() {
        return head.remote;
    }

    @Override
    public SocketAddress getLocalSocketAddress() {
        return head.local;
    }

    @Override
    public HostPort getServerAuthority() {
        return head.authority;
    }

    @Override
    public long getCreatedTimeStamp() {
        return since;
    }

    @Override
    public boolean isOpen() {
        return !Native.isGone(head.exchange);
    }

    @Override
    public boolean isInputShutdown() {
        return false;
    }

    @Override
    public boolean isOutputShutdown() {
        return false;
    }

    @Override
    public long getIdleTimeout() {
        return -1;
    }

    @Override
    public void setIdleTimeout(long idleTimeout) {}

    @Override
    public Object getTransport() {
        return null;
    }

    @Override
    public void close() {}

    @Override
    public void close(Throwable cause) {}

    @Override
    public void shutdownOutput() {}

    @Override
    public void onOpen() {}

    @Override
    public void onClose(Throwable cause) {}

    @Override
    public boolean onIdleExpired(TimeoutException timeout) {
        return false;
    }

    @Override
    public void addEventListener(EventListener listener) {}

    @Override
    public void removeEventListener(EventListener listener) {}

    @Override
    public long getMessagesIn() {
        return 1;
    }

    @Override
    public long getMessagesOut() {
        return 1;
    }

    @Override
    public long getBytesIn() {
        return 0;
    }

    @Override
    public long getBytesOut() {
        return 0;
    }

    @Override
    public void fillInterested(Callback callback) {
        throw noBytes();
    }

    @Override
    public boolean tryFillInterested(Callback callback) {
        throw noBytes();
    }

    @Override
    public boolean isFillInterested() {
        return false;
    }

    @Override
    public Callback cancelWrite(Throwable cause) {
        throw noBytes();
    }

    @Override
    public void setConnection(Connection connection) {
        throw noBytes();
    }

    @Override
    public void upgrade(Connection connection) {
        throw noBytes();
    }

    private static UnsupportedOperationException noBytes() {
        return new UnsupportedOperationException("a request has no connection of its own here");
    }
}

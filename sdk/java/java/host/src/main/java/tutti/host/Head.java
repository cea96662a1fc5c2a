package tutti.host;

import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import org.eclipse.jetty.http.HostPortHttpField;
import org.eclipse.jetty.http.HttpField;
import org.eclipse.jetty.http.HttpFields;
import org.eclipse.jetty.http.HttpHeader;
import org.eclipse.jetty.http.HttpURI;
import org.eclipse.jetty.http.HttpVersion;
import org.eclipse.jetty.http.MetaData;
import org.eclipse.jetty.http.UriCompliance;
import org.eclipse.jetty.util.HostPort;

/** A request's head, as {@code request.rs} writes it. */
final class Head {
    private static final int SECURE = 1;
    private static final int WEBSOCKET = 2;
    private static final int STREAMED = 4;
    private static final int EMPTY = 8;

    /** The number of its exchange. */
    final long exchange;
    final HttpVersion version;
    /** Bytes of the body; -1 where that is not known. */
    final long length;
    final String method;
    final String scheme;
    final InetSocketAddress remote;
    final InetSocketAddress local;
    final HostPort authority;
    /** The user whom the server has authenticated; empty if there is none. */
    final String user;
    private final int flags;
    private final String target;
    private final HttpFields fields;
    private final HostPortHttpField host;

    Head(byte[] bytes) {
        ByteBuffer from = ByteBuffer.wrap(bytes);
        exchange = from.getLong();
        flags = from.get();
        version = switch (from.get()) {
            case 0 -> HttpVersion.HTTP_1_0;
            case 1 -> HttpVersion.HTTP_1_1;
            // A WebSocket over HTTP/2 comes as the handshake of HTTP/1.1 that means the same.
            case 2 -> isWebSocket() ? HttpVersion.HTTP_1_1 : HttpVersion.HTTP_2;
            default -> HttpVersion.HTTP_3;
        };
        int remotePort = from.getShort() & 0xffff;
        int localPort = from.getShort() & 0xffff;
        length = from.getLong();
        method = text(from);
        target = text(from);
        scheme = text(from);
        remote = InetSocketAddress.createUnresolved(text(from), remotePort);
        local = InetSocketAddress.createUnresolved(text(from), localPort);
        String name = text(from);
        authority = new HostPort(name.isEmpty() ? local.getHostString() : name, localPort);
        user = text(from, StandardCharsets.UTF_8);
        int count = from.getInt();
        HttpFields.Mutable all = HttpFields.build();
        HostPortHttpField found = null;
        for (int index = 0; index < count; index++) {
            HttpField field = new HttpField(text(from), text(from));
            if (field.getHeader() == HttpHeader.HOST && found == null) {
                found = new HostPortHttpField(field.getValue());
                field = found;
            }
            all.add(field);
        }
        host = found;
        fields = all.asImmutable();
    }

    private static String text(ByteBuffer from) {
        return text(from, StandardCharsets.ISO_8859_1);
    }

    private static String text(ByteBuffer from, Charset charset) {
        int length = from.getInt();
        String text = new String(from.array(), from.position(), length, charset);
        from.position(from.position() + length);
        return text;
    }

    boolean isSecure() {
        return (flags & SECURE) != 0;
    }

    boolean isWebSocket() {
        return (flags & WEBSOCKET) != 0;
    }

    /** The body comes while the request is served. */
    boolean isStreamed() {
        return (flags & STREAMED) != 0;
    }

    /** There is no body. */
    boolean isEmpty() {
        return (flags & EMPTY) != 0;
    }

    /**
     * Says why the URI is refused; null: it is not. Jetty's own connector would refuse it for the same, but for path parameters: it drops them, and the conditions of
     * the server's configuration see them as part of the path.
     */
    String refusal(UriCompliance compliance, boolean takesParameters) {
        if (!takesParameters && hasParameters()) {
            return "Path parameters";
        }
        return UriCompliance.checkUriCompliance(compliance, uri(), null);
    }

    /** True if the path has parameters, other than the session's at its end. */
    private boolean hasParameters() {
        int end = target.indexOf('?');
        String path = end < 0 ? target : target.substring(0, end);
        int at = path.indexOf(';');
        if (at < 0) {
            return false;
        }
        boolean isLast = path.indexOf('/', at) < 0 && path.indexOf(';', at + 1) < 0;
        return !isLast || !path.startsWith(";jsessionid=", at);
    }

    /** The request as Jetty takes it. */
    MetaData.Request request() {
        return new MetaData.Request(method, uri(), version, fields, length);
    }

    private HttpURI uri() {
        HttpURI.Mutable uri = HttpURI.build(method, target);
        if (!uri.isAbsolute()) {
            uri.scheme(scheme);
        }
        if (uri.getAuthority() == null) {
            HostPort asked = host == null ? authority : host.getHostPort();
            int port = asked.getPort();
            boolean isUsual = port == (isSecure() ? 443 : 80);
            uri.authority(asked.getHost(), isUsual ? -1 : port);
        }
        if (uri.getPath() == null) {
            uri.path("/");
        }
        return uri.asImmutable();
    }

    @Override
    public String toString() {
        return method + " " + target;
    }
}

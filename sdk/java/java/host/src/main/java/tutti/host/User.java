package tutti.host;

import java.security.Principal;
import org.eclipse.jetty.server.Request;

/** A user whom the server has authenticated. */
public record User(String getName) implements Principal {
    /** The attribute of a connection whose request is from a user. */
    static final String ATTRIBUTE = User.class.getName();

    /** The user of a request; null if there is none. */
    public static User of(Request request) {
        return (User) request.getConnectionMetaData().getAttribute(ATTRIBUTE);
    }
}

package tutti.host.generation;

import java.io.IOException;
import java.util.Set;
import javax.security.auth.Subject;
import @SERVLET@.servlet.DispatcherType;
import @SERVLET@.servlet.RequestDispatcher;
import @SERVLET@.servlet.ServletException;
import @SERVLET@.servlet.ServletRequest;
import @SERVLET@.servlet.ServletResponse;
import @SERVLET@.servlet.http.HttpServletRequest;
import @SERVLET@.servlet.http.HttpServletResponse;
import org.eclipse.jetty.@JETTY@.nested.Authentication;
import org.eclipse.jetty.@JETTY@.nested.Request;
import org.eclipse.jetty.@JETTY@.security.UserAuthentication;
import org.eclipse.jetty.@JETTY@.servlet.ServletHandler;
import org.eclipse.jetty.@JETTY@.webapp.WebAppContext;
import org.eclipse.jetty.security.UserIdentity;
import org.eclipse.jetty.util.URIUtil;
import tutti.host.User;

/** The same as in {@code Core.java}, for the generations whose context is nested into a handler. */
public final class Context extends WebAppContext {
    public Context() {
        _apiContext = new Api();
    }

    @Override
    protected ServletHandler newServletHandler() {
        return new Servlets();
    }

    /** The same as in {@code Core.java}. */
    private static final class Servlets extends ServletHandler {
        @Override
        public void doHandle(String target, Request base, HttpServletRequest request, HttpServletResponse response)
                throws IOException, ServletException {
            User user = User.of(base.getCoreRequest());
            Authentication found = base.getAuthentication();
            boolean hasLogin = found instanceof Authentication.User || found instanceof Authentication.Deferred;
            if (user != null && !hasLogin && base.getDispatcherType() == DispatcherType.REQUEST) {
                UserIdentity identity = UserIdentity.from(new Subject(), user);
                base.setAuthentication(new UserAuthentication(null, identity));
            }
            super.doHandle(target, base, request, response);
        }
    }

    private final class Api extends WebAppContext.Context {
        /** The place of a path in the file system, also of one that is not there yet. */
        @Override
        public String getRealPath(String path) {
            String real = super.getRealPath(path);
            String canonical = real == null && path != null ? URIUtil.canonicalPath(path) : null;
            if (canonical == null || getBaseResource() == null || getBaseResource().getPath() == null) {
                return real;
            }
            return getBaseResource().getPath().resolve(canonical.replaceFirst("^/+", "")).toString();
        }

        /** The resources below a path; null where that is no folder. */
        @Override
        public Set<String> getResourcePaths(String path) {
            Set<String> paths = super.getResourcePaths(path);
            return paths == null || paths.isEmpty() ? null : paths;
        }

        @Override
        public RequestDispatcher getNamedDispatcher(String name) {
            RequestDispatcher dispatcher = super.getNamedDispatcher(name);
            return dispatcher == null ? null : new Closing(dispatcher);
        }
    }

    /** A dispatcher whose response is complete when it has forwarded (section 9.4): Jetty leaves a named one open. */
    private record Closing(RequestDispatcher dispatcher) implements RequestDispatcher {
        @Override
        public void include(ServletRequest request, ServletResponse response) throws ServletException, IOException {
            dispatcher.include(request, response);
        }

        @Override
        public void forward(ServletRequest request, ServletResponse response) throws ServletException, IOException {
            dispatcher.forward(request, response);
            if (request.isAsyncStarted()) {
                return;
            }
            try {
                response.getOutputStream().close();
            } catch (IllegalStateException hasWriter) {
                response.getWriter().close();
            }
        }
    }
}

package tutti.host;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.eclipse.jetty.http.HttpURI;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.URIUtil;
import org.eclipse.jetty.util.resource.Resource;

/**
 * Serves a folder's welcome file as if it had been asked for (Servlet 6.0 section 10.10): a file, or else a servlet that is mapped to it, behind the filters that are mapped to
 * it. Jetty itself would forward to it, past the filters of direct requests.
 *
 * <p>Stands before the web application. Must never happen: a path that a servlet is mapped to becomes another one.
 */
final class Welcome extends Handler.Wrapper {
    private final Object webapp;
    /** The context path, which an application can set in its `jetty-web.xml`; empty for the root. */
    private String context = "";
    private Resource base;
    private String[] files = {};
    /** All that servlets are mapped to, but for the default one, which has the rest. */
    private final List<String> patterns = new ArrayList<>();
    /** The same without pages: one that is not there is no welcome file. */
    private final List<String> servlets = new ArrayList<>();

    Welcome(Object webapp, Handler handler) {
        super(handler);
        this.webapp = webapp;
    }

    @Override
    protected void doStart() throws Exception {
        super.doStart();
        Class<?> type = webapp.getClass();
        String set = (String) type.getMethod("getContextPath").invoke(webapp);
        context = set == null || set.equals("/") ? "" : set;
        base = (Resource) type.getMethod("getBaseResource").invoke(webapp);
        String[] named = (String[]) type.getMethod("getWelcomeFiles").invoke(webapp);
        files = named == null ? new String[0] : named;
        Object api = type.getMethod("getServletContext").invoke(webapp);
        Object registrations = api.getClass().getMethod("getServletRegistrations").invoke(api);
        for (Map.Entry<?, ?> registration : ((Map<?, ?>) registrations).entrySet()) {
            Object name = registration.getKey();
            Object mappings = registration.getValue().getClass().getMethod("getMappings").invoke(registration.getValue());
            for (Object pattern : (Iterable<?>) mappings) {
                if (!pattern.equals("/")) {
                    patterns.add((String) pattern);
                    if (!name.equals("jsp")) {
                        servlets.add((String) pattern);
                    }
                } else if (!name.equals("default")) {
                    // The application has put its own in the place of the servlet that serves files.
                    files = new String[0];
                }
            }
        }
    }

    @Override
    public boolean handle(Request request, Response response, Callback callback) throws Exception {
        String path = request.getHttpURI().getCanonicalPath();
        boolean isFolder = path != null && path.endsWith("/") && path.startsWith(context + "/");
        String folder = isFolder ? path.substring(context.length()) : null;
        String welcome = isFolder && !isMapped(folder, patterns) ? find(folder) : null;
        if (welcome == null) {
            return super.handle(request, response, callback);
        }
        String encoded = URIUtil.addPaths(request.getHttpURI().getPath(), URIUtil.encodePath(welcome));
        HttpURI uri = HttpURI.build(request.getHttpURI()).path(encoded).asImmutable();
        return super.handle(Request.serveAs(request, uri), response, callback);
    }

    /** The welcome file of a folder: the first that is there, or else that a servlet is mapped to; null for none. */
    private String find(String folder) {
        if (isInside(folder)) {
            return null;
        }
        for (String file : files) {
            Resource found = base == null ? null : base.resolve(folder.substring(1) + file);
            if (found != null && found.exists() && !found.isDirectory()) {
                return file;
            }
        }
        for (String file : files) {
            if (isMapped(folder + file, servlets)) {
                return file;
            }
        }
        return null;
    }

    /** These folders are for the web application alone (section 10.5). */
    private static boolean isInside(String path) {
        return path.regionMatches(true, 0, "/WEB-INF/", 0, 9) || path.regionMatches(true, 0, "/META-INF/", 0, 10);
    }

    /** One of the patterns fits (section 12.2). */
    private static boolean isMapped(String path, List<String> patterns) {
        for (String pattern : patterns) {
            boolean fits = pattern.isEmpty() ? path.equals("/")
                    : pattern.endsWith("/*") ? isBelow(path, pattern.substring(0, pattern.length() - 2))
                    : pattern.startsWith("*.") ? path.endsWith(pattern.substring(1))
                    : path.equals(pattern);
            if (fits) {
                return true;
            }
        }
        return false;
    }

    private static boolean isBelow(String path, String folder) {
        return path.startsWith(folder) && (path.length() == folder.length() || path.charAt(folder.length()) == '/');
    }
}

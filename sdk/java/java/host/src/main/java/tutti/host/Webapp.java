package tutti.host;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.net.URI;
import java.net.URL;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.Supplier;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.eclipse.jetty.ee.webapp.WebAppClassLoading;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.util.resource.Resource;
import org.eclipse.jetty.util.resource.ResourceFactory;

/**
 * The web application in a Jetty server. The classes of one servlet generation are on the class path, those of the others are not: what they have in common is
 * called by name.
 */
final class Webapp {
    /** Classes of ours and of libraries that a web application never sees, so that it may bring its own. */
    private static final String[] HIDDEN = {"tutti.", "org.slf4j.", "org.objectweb.asm."};

    /** The names of our jars with tag libraries. */
    private static final List<String> WITH_TAGS = List.of("jakarta.servlet.jsp.jstl-", "javax.servlet.jsp.jstl-", "wasp-");

    private Webapp() {}

    /** Puts the web application into the server. */
    static void install(Server server, Settings settings) throws Throwable {
        WebAppClassLoading.addHiddenClasses(server, HIDDEN);
        // A WebAppContext of the generation that is on the class path (sdk/java/java/contexts).
        Class<?> type = Class.forName("tutti.host.generation.Context");
        Object webapp = type.getConstructor().newInstance();
        call(webapp, "setServer", Server.class, server);
        call(webapp, "setContextPath", String.class, "/");
        call(webapp, "setWar", String.class, settings.get("webapp"));
        File folder = new File(settings.get("folder"));
        if (!folder.mkdirs() && !folder.isDirectory()) {
            throw new IOException("cannot make the folder `" + folder + "`");
        }
        call(webapp, "setTempDirectory", File.class, folder);
        call(webapp, "setThrowUnavailableOnStartupException", boolean.class, true);
        ResourceFactory resources = ResourceFactory.of(server);
        List<Resource> libraries = settings.lines("classpath").stream().map(resources::newResource).toList();
        if (!libraries.isEmpty()) {
            call(webapp, "setExtraClasspath", List.class, libraries);
        }
        // A folder is never listed, whatever the web application's own files are.
        webapp.getClass()
                .getMethod("setInitParameter", String.class, String.class)
                .invoke(webapp, "org.eclipse.jetty.servlet.Default.dirAllowed", "false");
        webapp.getClass()
                .getMethod("setAttribute", String.class, Object.class)
                .invoke(webapp, "org.eclipse.jetty.tlds", tagLibraries());
        Object errors = webapp.getClass().getMethod("getErrorHandler").invoke(webapp);
        // A stack is for the log: a client is never shown one.
        call(errors, "setShowStacks", boolean.class, false);
        Object handler = webapp instanceof Supplier<?> nested ? nested.get() : webapp;
        server.setHandler(new Welcome(webapp, (Handler) handler));
    }

    /**
     * The descriptions of our tag libraries. Jetty would find them itself in jars that a pattern names, and look for annotations in each of their 1,700 classes then: two
     * fifths of a start.
     */
    private static List<URL> tagLibraries() throws IOException {
        List<URL> found = new ArrayList<>();
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            File file = new File(path);
            if (WITH_TAGS.stream().anyMatch(file.getName()::startsWith)) {
                try (JarFile jar = new JarFile(file)) {
                    String prefix = "jar:" + file.toURI() + "!/";
                    for (JarEntry entry : Collections.list(jar.entries())) {
                        if (entry.getName().startsWith("META-INF/") && entry.getName().endsWith(".tld")) {
                            found.add(URI.create(prefix + entry.getName()).toURL());
                        }
                    }
                }
            }
        }
        return found;
    }

    private static void call(Object target, String method, Class<?> type, Object argument) throws Throwable {
        try {
            target.getClass().getMethod(method, type).invoke(target, argument);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
    }
}

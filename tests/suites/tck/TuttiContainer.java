package tutti.tck;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;

import org.jboss.arquillian.container.spi.client.container.ContainerConfiguration;
import org.jboss.arquillian.container.spi.client.container.DeployableContainer;
import org.jboss.arquillian.container.spi.client.container.DeploymentException;
import org.jboss.arquillian.container.spi.client.container.LifecycleException;
import org.jboss.arquillian.container.spi.client.protocol.ProtocolDescription;
import org.jboss.arquillian.container.spi.client.protocol.metadata.HTTPContext;
import org.jboss.arquillian.container.spi.client.protocol.metadata.ProtocolMetaData;
import org.jboss.arquillian.container.spi.client.protocol.metadata.Servlet;
import org.jboss.arquillian.core.spi.LoadableExtension;
import org.jboss.shrinkwrap.api.Archive;
import org.jboss.shrinkwrap.api.ArchivePaths;
import org.jboss.shrinkwrap.api.asset.StringAsset;
import org.jboss.shrinkwrap.api.exporter.ZipExporter;
import org.jboss.shrinkwrap.descriptor.api.Descriptor;

/**
 * Arquillian's view of a running Tutti: each deployment is an application with a listener of its own.
 * `tutti.control` is the control socket, and `tutti.folder` a folder that the language host can read.
 */
public class TuttiContainer implements DeployableContainer<TuttiContainer.Settings>, LoadableExtension {
    /** The context path of the archive's name, which the TCKs have in many tests, absolute redirects, and the people that they log in as. */
    private static final String CONTEXT = """
        <?xml version="1.0"?>
        <!DOCTYPE Configure PUBLIC "-//Jetty//Configure//EN" "https://jetty.org/configure_10_0.dtd">
        <Configure class="org.eclipse.jetty.ee11.webapp.WebAppContext"><Set name="contextPath">%s</Set>
        <Get name="server"><Get name="connectors" id="connectors"/></Get>
        <Call class="java.lang.reflect.Array" name="get"><Arg><Ref refid="connectors"/></Arg><Arg type="int">0</Arg>
        <Get name="defaultConnectionFactory"><Get name="httpConfiguration"><Set name="relativeRedirectAllowed">false</Set></Get></Get></Call>
        %s</Configure>
        """;
    private static final String LOGIN = """
        <Get name="securityHandler"><Set name="loginService">
        <New class="org.eclipse.jetty.security.HashLoginService"><Arg>default</Arg><Set name="userStore">
        <New class="org.eclipse.jetty.security.UserStore">%s</New></Set></New></Set></Get>
        """;
    private static final String PERSON = """
        <Call name="addUser"><Arg>%s</Arg>
        <Arg><Call class="org.eclipse.jetty.util.security.Credential" name="getCredential"><Arg>%s</Arg></Call></Arg>
        <Arg><Array type="java.lang.String">%s</Array></Arg></Call>
        """;

    public static class Settings implements ContainerConfiguration {
        @Override
        public void validate() {
        }
    }

    /** The server has refused it if there is no file: there is nothing at its port then, as tests of wrong applications expect. */
    private record Deployment(int port, Path file) {
    }

    private final Map<String, Deployment> deployments = new LinkedHashMap<>();
    private int number;

    @Override
    public void register(ExtensionBuilder builder) {
        builder.service(DeployableContainer.class, TuttiContainer.class);
    }

    @Override
    public Class<Settings> getConfigurationClass() {
        return Settings.class;
    }

    @Override
    public ProtocolDescription getDefaultProtocol() {
        return new ProtocolDescription("Local");
    }

    @Override
    public ProtocolMetaData deploy(Archive<?> archive) throws DeploymentException {
        addContext(archive);
        String name = "tck" + ++number;
        try (ServerSocket probe = new ServerSocket(0)) {
            Path file = Path.of(System.getProperty("tutti.folder")).resolve(name + ".war");
            archive.as(ZipExporter.class).exportTo(file.toFile(), true);
            Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r--r--"));
            deployments.put(archive.getName(), new Deployment(probe.getLocalPort(), file));
        } catch (IOException cause) {
            throw new DeploymentException("the archive cannot be written", cause);
        }
        try {
            configure();
        } catch (DeploymentException refused) {
            deployments.put(archive.getName(), new Deployment(deployments.get(archive.getName()).port(), null));
            configure();
        }
        HTTPContext context = new HTTPContext("localhost", deployments.get(archive.getName()).port());
        context.add(new Servlet("default", contextPath(archive)));
        return new ProtocolMetaData().addContext(context);
    }

    @Override
    public void undeploy(Archive<?> archive) throws DeploymentException {
        deployments.remove(archive.getName());
        configure();
    }

    private static void addContext(Archive<?> archive) {
        String login = "";
        var descriptor = archive.get("/WEB-INF/web.xml");
        if (descriptor != null) {
            try (var input = descriptor.getAsset().openStream()) {
                if (new String(input.readAllBytes(), StandardCharsets.UTF_8).contains("login-config>")) {
                    login = LOGIN.formatted(person("j2ee", "Administrator", "Employee", "ADM", "EMP") + person("javajoe", "VP", "Manager", "MGR"));
                }
            } catch (IOException impossible) {
                throw new IllegalStateException(impossible);
            }
        }
        archive.add(new StringAsset(CONTEXT.formatted(contextPath(archive), login)), ArchivePaths.create("/WEB-INF/jetty-web.xml"));
    }

    private static String contextPath(Archive<?> archive) {
        return "/" + archive.getName().replaceFirst("[.]war$", "");
    }

    private static String person(String name, String... roles) {
        String items = java.util.Arrays.stream(roles).map("<Item>%s</Item>"::formatted).collect(Collectors.joining());
        return PERSON.formatted(name, name, items);
    }

    /** Puts the configuration, and returns when all applications have started. */
    private void configure() throws DeploymentException {
        String listeners = deployments.entrySet().stream()
            .map(each -> "\"127.0.0.1:%d\": {\"pass\": \"%s\"}".formatted(
                each.getValue().port(), each.getValue().file() == null ? "routes" : "applications/" + name(each.getValue())))
            .collect(Collectors.joining(","));
        String applications = deployments.values().stream().filter(each -> each.file() != null)
            .map(each -> ("\"%s\": {\"type\": \"java\", \"servlet\": \"6.1\", \"threads\": 8, \"request_buffering\": false, "
                + "\"options\": [\"-Xmx256m\", \"-Dservlet.tck.support.crossContext=false\"], \"webapp\": \"%s\"}")
                .formatted(name(each), each.file()))
            .collect(Collectors.joining(","));
        byte[] body = "{\"listeners\": {%s}, \"routes\": [{\"action\": {\"return\": 404}}], \"applications\": {%s}}".formatted(listeners, applications).getBytes(StandardCharsets.UTF_8);
        String head = "PUT /config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n".formatted(body.length);
        try (SocketChannel control = SocketChannel.open(StandardProtocolFamily.UNIX)) {
            control.connect(UnixDomainSocketAddress.of(System.getProperty("tutti.control")));
            for (ByteBuffer buffer : new ByteBuffer[] {ByteBuffer.wrap(head.getBytes(StandardCharsets.US_ASCII)), ByteBuffer.wrap(body)}) {
                while (buffer.hasRemaining()) {
                    control.write(buffer);
                }
            }
            var response = new StringBuilder();
            ByteBuffer buffer = ByteBuffer.allocate(65536);
            while (control.read(buffer) >= 0) {
                response.append(StandardCharsets.UTF_8.decode(buffer.flip()));
                buffer.clear();
            }
            if (!response.toString().startsWith("HTTP/1.1 200 ")) {
                throw new DeploymentException("the configuration is refused: " + response);
            }
        } catch (IOException cause) {
            throw new DeploymentException("the control socket does not answer", cause);
        }
    }

    private static String name(Deployment deployment) {
        return deployment.file().getFileName().toString().replace(".war", "");
    }

    @Override
    public void start() throws LifecycleException {
    }

    @Override
    public void stop() throws LifecycleException {
    }

    @Override
    public void deploy(Descriptor descriptor) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void undeploy(Descriptor descriptor) {
        throw new UnsupportedOperationException();
    }
}

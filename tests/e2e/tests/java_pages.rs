//! Pages (JSP) with the tag libraries of ours, in each generation of servlets.

use serde_json::json;
use tutti_e2e::java::JavaSite;

/// A page with tags of the core and a function; its libraries' names are those of the generation.
fn page(core: &str) -> String {
    format!(
        r#"<%@ taglib prefix="c" uri="{core}" %><%@ taglib prefix="f" uri="http://java.sun.com/jsp/jstl/functions" %><c:forEach var="i" begin="1" end="3">[<c:out value="${{i}}"/>]</c:forEach> ${{f:toUpperCase("abc")}} <%= 2 + 3 %>"#
    )
}

#[test]
fn pages_have_tags_in_each_generation_of_servlets() {
    let site = JavaSite::bare("jakarta");
    for (servlet, core) in [
        ("4.0", "http://java.sun.com/jsp/jstl/core"),
        ("5.0", "http://java.sun.com/jsp/jstl/core"),
        ("6.0", "jakarta.tags.core"),
        ("6.1", "jakarta.tags.core"),
    ] {
        let webapp = site.server.folder().join(format!("pages-{servlet}"));
        std::fs::create_dir_all(webapp.join("WEB-INF")).unwrap();
        std::fs::write(webapp.join("index.jsp"), page(core)).unwrap();
        site.configure(&json!({"webapp": webapp, "servlet": servlet}));
        let reply = site.get("/index.jsp");
        assert_eq!(
            reply.text().trim(),
            "[1][2][3] ABC 5",
            "{servlet}: {}",
            site.server.log()
        );
    }
}

//! Asks the Python that is built for (`PYO3_PYTHON`) where it lives: its library must be found when the host starts, and its
//! standard library belongs to where its program is, not to whichever `python3` comes first on PATH then. That library and the folders of
//! installed packages are what it reads. A description without a program (`PYO3_CONFIG_FILE`) is of a Python that other systems have, at the places
//! where distributions put it.

use std::process::Command;

use pyo3_build_config::InterpreterConfig;

/// Folders that the loader looks into by itself.
const USUAL: [&str; 4] = ["/usr/lib", "/usr/lib64", "/lib", "/lib64"];

const QUESTION: &str = "import site, sys, platform, sysconfig
print(platform.python_version())
print('%s/bin/python%d.%d' % (sys.base_prefix, *sys.version_info[:2]))
print(sysconfig.get_config_var('LIBDIR') or '')
print(':'.join([*map(sysconfig.get_path, ('stdlib', 'platstdlib')), *site.getsitepackages()]))";

fn main() -> Result<(), String> {
    pyo3_build_config::use_pyo3_cfgs();
    let config = pyo3_build_config::get();
    // `asgi/guarded.rs` relies on the interpreter's lock.
    if config.is_free_threaded() {
        let python = config.executable().unwrap_or("this Python");
        return Err(format!(
            "`{python}` is free-threaded, which the host does not support: name another with PYO3_PYTHON"
        ));
    }
    match config.executable() {
        Some(python) => ask(python),
        None => {
            elsewhere(config);
            Ok(())
        }
    }
}

/// A Python of another system: the folders of Debian and of Fedora, of which those count that are there.
fn elsewhere(config: &InterpreterConfig) {
    let version = config.version();
    let folders: Vec<_> = [
        "/usr/lib",
        "/usr/lib64",
        "/usr/local/lib",
        "/usr/local/lib64",
    ]
    .iter()
    .map(|folder| format!("{folder}/python{version}"))
    .chain(["/usr/lib/python3/dist-packages".to_owned()])
    .collect();
    println!("cargo::rustc-env=TUTTI_PYTHON_VERSION={version}");
    println!("cargo::rustc-env=TUTTI_PYTHON_PROGRAM=/usr/bin/python{version}");
    println!(
        "cargo::rustc-env=TUTTI_PYTHON_FOLDERS={}",
        folders.join(":")
    );
}

fn ask(python: &str) -> Result<(), String> {
    let output = Command::new(python)
        .args(["-c", QUESTION])
        .output()
        .map_err(|error| format!("cannot run `{python}`: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    let (Some(version), Some(program), Some(libraries), Some(folders)) =
        (lines.next(), lines.next(), lines.next(), lines.next())
    else {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{python}` does not say what it is: {complaint}"));
    };
    println!("cargo::rustc-env=TUTTI_PYTHON_VERSION={version}");
    println!("cargo::rustc-env=TUTTI_PYTHON_PROGRAM={program}");
    println!("cargo::rustc-env=TUTTI_PYTHON_FOLDERS={folders}");
    if !USUAL.iter().any(|usual| libraries.starts_with(usual)) {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{libraries}");
    }
    Ok(())
}

//! The virtual machine: loaded from the Java that was found, started once in a process, called by the thread that has started it.
//!
//! The JNI invocation interface (JNI specification, chapter 5), without headers of a JDK: a host is built where there is none. Must never happen:
//! a call into the virtual machine from a thread that is not its own.

use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;

use jni_sys::{
    JNI_FALSE, JNI_OK, JNI_VERSION_10, JNIEnv, JNINativeInterface_, JNINativeMethod, JavaVM,
    JavaVMInitArgs, JavaVMOption, jbyte, jbyteArray, jclass, jint, jobject, jsize, jvalue,
};

/// The first class of the Java part.
const MAIN: &CStr = c"tutti/host/Main";

/// `JNI_CreateJavaVM`.
type Create =
    unsafe extern "system" fn(*mut *mut JavaVM, *mut *mut JNIEnv, *mut JavaVMInitArgs) -> jint;

/// A method that native code stands for.
#[derive(Debug)]
pub(crate) struct Native {
    pub(crate) name: &'static CStr,
    pub(crate) signature: &'static CStr,
    pub(crate) function: *mut c_void,
}

/// The virtual machine of this process, as the thread that has started it sees it.
#[derive(Debug)]
pub(crate) struct Machine {
    env: *mut JNIEnv,
    main: jclass,
}

impl Machine {
    /// Starts it with these options and our native methods. Once in a process.
    ///
    /// # Errors
    /// The text tells what failed; Java itself has written more to standard error, or has ended the process.
    pub(crate) fn start(
        library: &Path,
        options: &[CString],
        natives: (&CStr, &[Native]),
    ) -> Result<Self, String> {
        let create = load(library)?;
        let mut options: Vec<_> = options
            .iter()
            .map(|option| JavaVMOption {
                // Only read.
                optionString: option.as_ptr().cast_mut(),
                extraInfo: ptr::null_mut(),
            })
            .collect();
        let mut arguments = JavaVMInitArgs {
            version: JNI_VERSION_10,
            nOptions: jint::try_from(options.len()).unwrap_or_default(),
            options: options.as_mut_ptr(),
            ignoreUnrecognized: JNI_FALSE,
        };
        let (mut machine, mut env) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the function that the library has under this name, and arguments that live until it returns.
        let code = unsafe { create(&raw mut machine, &raw mut env, &raw mut arguments) };
        if code != JNI_OK {
            return Err(format!(
                "the virtual machine refuses its options (JNI error {code})"
            ));
        }
        let mut this = Self {
            env,
            main: ptr::null_mut(),
        };
        this.main = this.class(MAIN)?;
        this.register(natives)?;
        Ok(this)
    }

    /// A class of the class path.
    fn class(&self, name: &CStr) -> Result<jclass, String> {
        let env = self.env;
        let table = table(env);
        // SAFETY: a function of the table's first version on; the name lives through the call.
        let class = unsafe { (table.v1_1.FindClass)(env, name.as_ptr()) };
        match class.is_null() {
            true => Err(self.exception(&format!("there is no class `{}`", name.to_string_lossy()))),
            false => Ok(class),
        }
    }

    fn register(&self, (class, natives): (&CStr, &[Native])) -> Result<(), String> {
        let class = self.class(class)?;
        let methods: Vec<_> = natives
            .iter()
            .map(|native| JNINativeMethod {
                name: native.name.as_ptr().cast_mut(),
                signature: native.signature.as_ptr().cast_mut(),
                fnPtr: native.function,
            })
            .collect();
        let env = self.env;
        let table = table(env);
        let count = jint::try_from(methods.len()).unwrap_or_default();
        // SAFETY: a live class, and `count` methods, whose functions have these signatures.
        let code = unsafe { (table.v1_1.RegisterNatives)(env, class, methods.as_ptr(), count) };
        match code {
            JNI_OK => Ok(()),
            _ => Err(self.exception("the Java part is not of this version")),
        }
    }

    /// Calls a static method of the main class that takes bytes and gives bytes, or null.
    ///
    /// # Errors
    /// It has thrown; Java has written the exception to standard error.
    pub(crate) fn call(&self, method: &CStr, argument: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let env = self.env;
        let name = method.to_string_lossy();
        let table = table(env);
        // SAFETY: a live class, and texts that live through the call.
        let id = unsafe {
            (table.v1_1.GetStaticMethodID)(env, self.main, method.as_ptr(), c"([B)[B".as_ptr())
        };
        if id.is_null() {
            return Err(self.exception(&format!("there is no method `{name}`")));
        }
        let argument = new_bytes(env, argument);
        if argument.is_null() {
            return Err(self.exception("there is no memory for the settings"));
        }
        let values = [jvalue { l: argument }];
        // SAFETY: the method's class, and the one argument that it takes.
        let result =
            unsafe { (table.v1_1.CallStaticObjectMethodA)(env, self.main, id, values.as_ptr()) };
        // SAFETY: the environment of this thread.
        if unsafe { (table.v1_2.ExceptionCheck)(env) } != JNI_FALSE {
            return Err(self.exception(&format!("`{name}` has thrown")));
        }
        Ok((!result.is_null()).then(|| bytes_of(env, result)))
    }

    /// Makes Java write the exception that is under way to standard error.
    fn exception(&self, text: &str) -> String {
        let env = self.env;
        let table = table(env);
        // SAFETY: the environment of this thread; without an exception it does nothing.
        unsafe { (table.v1_1.ExceptionDescribe)(env) };
        // SAFETY: as above.
        unsafe { (table.v1_1.ExceptionClear)(env) };
        text.to_owned()
    }
}

/// The functions of an environment.
fn table<'a>(env: *mut JNIEnv) -> &'a JNINativeInterface_ {
    // SAFETY: every caller has the environment of the calling thread.
    let table = unsafe { *env };
    // SAFETY: a table that never moves.
    unsafe { &*table }
}

/// Loads the library; its function that starts a virtual machine.
fn load(library: &Path) -> Result<Create, String> {
    let path = CString::new(library.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: a path with a NUL at its end. The library is never unloaded.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if handle.is_null() {
        return Err(last_error());
    }
    // SAFETY: a live handle, and a name with a NUL at its end.
    let function = unsafe { libc::dlsym(handle, c"JNI_CreateJavaVM".as_ptr()) };
    if function.is_null() {
        return Err(last_error());
    }
    // SAFETY: not null, and of this type in every virtual machine (JNI specification, JNI_CreateJavaVM).
    Ok(unsafe { std::mem::transmute::<*mut c_void, Create>(function) })
}

fn last_error() -> String {
    // SAFETY: a string of the loader's, or null, valid until its next call on this thread.
    let text: *const c_char = unsafe { libc::dlerror() };
    if text.is_null() {
        return "it cannot be loaded".to_owned();
    }
    // SAFETY: not null, so a string with a NUL at its end.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// The bytes as an array of Java's; null when there is no memory, which is an exception in Java.
pub(crate) fn new_bytes(env: *mut JNIEnv, bytes: &[u8]) -> jbyteArray {
    let Ok(length) = jsize::try_from(bytes.len()) else {
        return ptr::null_mut();
    };
    let table = table(env);
    // SAFETY: the environment of the calling thread.
    let array = unsafe { (table.v1_1.NewByteArray)(env, length) };
    if !array.is_null() {
        let from = bytes.as_ptr().cast::<jbyte>();
        // SAFETY: the array has this length, and so have the bytes.
        unsafe { (table.v1_1.SetByteArrayRegion)(env, array, 0, length, from) };
    }
    array
}

/// The bytes of an array.
pub(crate) fn bytes_of(env: *mut JNIEnv, array: jobject) -> Vec<u8> {
    let table = table(env);
    // SAFETY: a live array of bytes.
    let length = unsafe { (table.v1_1.GetArrayLength)(env, array) };
    let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
    get_region(env, array, 0, &mut bytes);
    bytes
}

/// Copies from an array, from `start` on; Java has an exception when that is beyond its end.
pub(crate) fn get_region(env: *mut JNIEnv, array: jobject, start: jsize, into: &mut [u8]) {
    let Ok(length) = jsize::try_from(into.len()) else {
        return;
    };
    let table = table(env);
    let to = into.as_mut_ptr().cast::<jbyte>();
    // SAFETY: a live array of bytes, and `length` bytes to write to.
    unsafe { (table.v1_1.GetByteArrayRegion)(env, array, start, length, to) };
}

/// Copies into an array, from its beginning on.
pub(crate) fn set_region(env: *mut JNIEnv, array: jobject, from: &[u8]) {
    let Ok(length) = jsize::try_from(from.len()) else {
        return;
    };
    let table = table(env);
    let from = from.as_ptr().cast::<jbyte>();
    // SAFETY: a live array of bytes, and `length` bytes to read from; Java checks the array's own length.
    unsafe { (table.v1_1.SetByteArrayRegion)(env, array, 0, length, from) };
}

/// The length of an array.
pub(crate) fn length_of(env: *mut JNIEnv, array: jobject) -> usize {
    let table = table(env);
    // SAFETY: a live array of bytes.
    let length = unsafe { (table.v1_1.GetArrayLength)(env, array) };
    usize::try_from(length).unwrap_or_default()
}

/// The bytes of a direct buffer from `start` on.
///
/// # Safety
/// A live direct buffer that has so many bytes, and that no code writes to while they are borrowed.
pub(crate) unsafe fn direct<'a>(
    env: *mut JNIEnv,
    buffer: jobject,
    start: usize,
    length: usize,
) -> Option<&'a [u8]> {
    let table = table(env);
    // SAFETY: a live buffer.
    let address = unsafe { (table.v1_4.GetDirectBufferAddress)(env, buffer) };
    // SAFETY: a live buffer.
    let capacity = unsafe { (table.v1_4.GetDirectBufferCapacity)(env, buffer) };
    let end = start.checked_add(length)?;
    if address.is_null() || usize::try_from(capacity).unwrap_or_default() < end {
        return None;
    }
    // SAFETY: `start` is within the buffer, as `end` is.
    let from = unsafe { address.cast::<u8>().add(start) };
    // SAFETY: `length` bytes of a live buffer, which no code writes to by the contract of this function.
    Some(unsafe { std::slice::from_raw_parts(from, length) })
}

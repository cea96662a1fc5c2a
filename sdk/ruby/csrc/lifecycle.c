/* The life of ruby, of its threads, and of one request: start, load, fork, serve, end. Every jump of ruby's (raise, throw, exit) ends here. */

#include "internal.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static ID id_rest, id_flush, id_call, id_load, id_describe, id_fork, id_settle, id_hook, id_finished, id_status, id_join, id_push, id_pop;

/* A process that the application forks has no request: the one it sees is its parent's. */
static void after_fork(void)
{
	tutti_is_forked = 1;
	for (tutti_thread *thread = tutti_first; thread; thread = thread->next) {
		thread->request = NULL;
	}
}

static char *copy_text(VALUE value)
{
	return strndup(RSTRING_PTR(value), (size_t) RSTRING_LEN(value));
}

static VALUE describe(VALUE exception)
{
	return rb_funcall(tutti.module, id_describe, 1, exception);
}

/* The pending jump as an exception, which is pending no longer; nil for one that ends the thread. */
static VALUE take_exception(void)
{
	VALUE exception = rb_errinfo();
	rb_set_errinfo(Qnil);
	bool is_one = !RB_SPECIAL_CONST_P(exception) && RTEST(rb_obj_is_kind_of(exception, rb_eException));
	return is_one ? exception : Qnil;
}

/* An exception as a text. Its own code may run for it, and may raise. */
static VALUE text_of(VALUE exception)
{
	int state;
	if (NIL_P(exception)) {
		return rb_str_new_cstr("the thread was ended");
	}
	VALUE text = rb_protect(describe, exception, &state);
	if (state) {
		rb_set_errinfo(Qnil);
	}
	return !state && RB_TYPE_P(text, T_STRING) ? text : rb_str_new_cstr("an exception that cannot be printed");
}

static void log_exception(VALUE exception, const char *while_doing)
{
	VALUE line = rb_str_concat(rb_str_new_cstr(while_doing), text_of(exception));
	host_log(TUTTI_LOG_ERROR, RSTRING_PTR(line), (size_t) RSTRING_LEN(line));
	RB_GC_GUARD(line);
}

/* Calls `work`; its exception as a text from malloc() in `message`. */
static int protect(VALUE (*work)(VALUE), VALUE argument, char **message)
{
	int state;
	rb_protect(work, argument, &state);
	if (state) {
		VALUE text = text_of(take_exception());
		if (message) {
			*message = copy_text(text);
		} else {
			host_log(TUTTI_LOG_ERROR, RSTRING_PTR(text), (size_t) RSTRING_LEN(text));
		}
		RB_GC_GUARD(text);
	}
	return state;
}

/* The end of the main thread's stack: ruby looks for its objects from there on, whatever frame it is called from. */
static void *stack_end(void)
{
	pthread_attr_t attributes;
	void *address = NULL;
	size_t size = 0;
	if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
		pthread_attr_getstack(&attributes, &address, &size);
		pthread_attr_destroy(&attributes);
	}
	return address ? (char *) address + size - sizeof(VALUE) : NULL;
}

static VALUE define(VALUE argument)
{
	const tutti_options *options = (const tutti_options *) argument;
	tutti.module = rb_define_module("Tutti");
	tutti_handles_define();
	VALUE prelude = rb_utf8_str_new(options->prelude, (long) options->prelude_len);
	VALUE binding = rb_const_get(rb_cObject, rb_intern("TOPLEVEL_BINDING"));
	rb_funcall(binding, rb_intern("eval"), 2, prelude, rb_str_new_cstr("tutti.rb"));
	tutti.stream_input_class = rb_const_get(tutti.module, rb_intern("StreamInput"));
	tutti_request_prepare();
	tutti_response_prepare();
	tutti_streaming_define();
	tutti_hijack_define();
	tutti.threads = rb_ary_new();
	rb_gc_register_address(&tutti.threads);
	rb_gc_register_address(&tutti.application);
	tutti.version = rb_ary_freeze(rb_ary_new_from_args(2, INT2FIX(1), INT2FIX(6)));
	rb_gc_register_address(&tutti.version);
	if (options->hidden) {
		rb_funcall(rb_const_get(rb_cObject, rb_intern("ENV")), rb_intern("delete"), 1, rb_str_new_cstr(options->hidden));
	}
	tutti.multithread = options->multithread;
	tutti.multiprocess = options->multiprocess;
	id_rest = rb_intern("@rest");
	id_flush = rb_intern("flush");
	id_call = rb_intern("call");
	id_load = rb_intern("load_application");
	id_describe = rb_intern("describe");
	id_fork = rb_intern("fork");
	id_settle = rb_intern("settle");
	id_hook = rb_intern("hook");
	id_finished = rb_intern("finished");
	id_status = rb_intern("status");
	id_join = rb_intern("join");
	id_push = rb_intern("push");
	id_pop = rb_intern("pop");
	return Qnil;
}

int tutti_ruby_start(const tutti_options *options, char **message)
{
	/* ruby writes into these when a script sets $0. */
	static char name[] = "tutti", option[] = "-e", program[] = "0";
	static char *arguments[] = { name, option, program, NULL };
	struct sigaction before[NSIG];
	char **argv = arguments;

	*message = NULL;
	for (int number = 1; number < NSIG; number++) {
		sigaction(number, NULL, &before[number]);
	}
	void *end = stack_end();
	if (!end) {
		return -1;
	}
	ruby_init_stack(end);
	if (ruby_setup() != 0) {
		return -1;
	}
	void *node = ruby_options(3, argv);
	int state = 0;
	if (!ruby_executable_node(node, &state)) {
		return -1;
	}
	state = ruby_exec_node(node);
	if (state) {
		return -1;
	}
	/* The prototype would keep these for a main thread that never looks; SIGSEGV stays ruby's: it finds stacks that are full. */
	static const int ours[] = { SIGINT, SIGHUP, SIGTERM, SIGQUIT, SIGALRM, SIGUSR1, SIGUSR2 };
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
		sigaction(ours[i], &before[ours[i]], NULL);
	}
	pthread_atfork(NULL, NULL, after_fork);
	return protect(define, (VALUE) options, message);
}

static VALUE load(VALUE argument)
{
	const tutti_options *options = (const tutti_options *) argument;
	VALUE hooks = options->hooks ? rb_utf8_str_new_cstr(options->hooks) : Qnil;
	tutti.application = rb_funcall(tutti.module, id_load, 2, rb_utf8_str_new_cstr(options->script), hooks);
	return Qnil;
}

/* In a process that the script or the application has forked, and that has come to its end there. */
static void end_forked(int status)
{
	int after = ruby_cleanup(status);
	_exit(after ? after : status);
}

int tutti_ruby_load(const tutti_options *options, char **message)
{
	*message = NULL;
	int state = protect(load, (VALUE) options, message);
	if (tutti_is_forked) {
		end_forked(0);
	}
	return state;
}

static VALUE settle(VALUE argument)
{
	return rb_funcall(tutti.module, id_settle, 0);
}

/* Before the first fork: memory is compacted, and threads that will not be in the workers are logged. */
void tutti_ruby_settle(void)
{
	protect(settle, Qnil, NULL);
}

static VALUE fork_process(VALUE argument)
{
	VALUE pid = rb_funcall(rb_mProcess, id_fork, 0);
	*(int *) argument = NIL_P(pid) ? 0 : NUM2INT(pid);
	return Qnil;
}

/* As ruby forks, so that it and code that has hooked `Process._fork` know of it. -1: it failed. */
int tutti_ruby_fork(void)
{
	int pid = -1;
	protect(fork_process, (VALUE) &pid, NULL);
	return pid;
}

static VALUE call_hook(VALUE name)
{
	return rb_funcall(tutti.module, id_hook, 1, name);
}

/* In a worker, after its fork: it is none that the application has made. */
void tutti_ruby_enter(void)
{
	tutti_is_forked = 0;
}

int tutti_ruby_boot(char **message)
{
	*message = NULL;
	return protect(call_hook, ID2SYM(rb_intern("on_worker_boot")), message);
}

/* Something went wrong while the request was served: as good an answer as can still be given. */
static void give_up(tutti_thread *thread)
{
	if (!thread->request || thread->is_ended) {
		return;
	}
	if (!thread->is_started) {
		thread->is_started = thread->is_ended = true;
		host_answer_500(thread->serving);
	} else {
		thread->is_ended = true;
		host_abort(thread->serving);
	}
}

typedef struct {
	tutti_thread *thread;
	VALUE environment;
	VALUE response;
	VALUE exception;
} service;

static VALUE serve(VALUE argument)
{
	service *service = (void *) argument;
	service->environment = service->thread->environment = tutti_environment(service->thread);
	service->response = rb_funcall(tutti.application, id_call, 1, service->environment);
	/* Not of a request whose connection was taken over, nor in a process that was forked meanwhile. */
	if (service->thread->request) {
		tutti_respond(service->thread, service->response);
	}
	return Qnil;
}

static VALUE run_finished(VALUE argument)
{
	const service *service = (void *) argument;
	VALUE handlers = rb_hash_lookup2(service->environment, tutti.keys[KEY_RESPONSE_FINISHED], Qnil);
	bool has_any = RB_TYPE_P(handlers, T_ARRAY) && RARRAY_LEN(handlers) > 0;
	if (has_any || RTEST(rb_hash_lookup2(service->environment, rb_interned_str_cstr("rack.after_reply"), Qnil))) {
		rb_funcall(tutti.module, id_finished, 3, service->environment, service->response, service->exception);
	}
	return Qnil;
}

static int exit_status(VALUE exception)
{
	VALUE status = rb_funcall(exception, id_status, 0);
	return FIXNUM_P(status) ? FIX2INT(status) : 1;
}

/* `exit` in the application: it ends the process, but not without an answer. */
static void log_exit(tutti_thread *thread, int status)
{
	char text[200];
	const tutti_request *request = thread->request;
	if (!request) {
		return;
	}
	const char *when = thread->is_ended ? "after its answer to" : "instead of answering";
	int len = snprintf(text, sizeof text, "the application called exit(%d) %s `%.*s %.*s`", status, when, (int) request->method.len,
		request->method.data, request->target.len < 80 ? (int) request->target.len : 80, request->target.data);
	host_log(TUTTI_LOG_ERROR, text, (size_t) len < sizeof text ? (size_t) len : sizeof text - 1);
}

/* True for what a write to a client that has gone raises: the application is not at fault. */
static bool is_of_the_client(const tutti_thread *thread, VALUE exception)
{
	bool is_gone = thread->is_gone || (thread->request && !thread->is_ended && host_is_client_gone(thread->serving));
	return is_gone
		&& (RTEST(rb_obj_is_kind_of(exception, rb_path2class("Errno::EPIPE"))) || RTEST(rb_obj_is_kind_of(exception, rb_eIOError)));
}

static void fail(tutti_thread *thread, VALUE exception)
{
	if (NIL_P(exception)) {
		host_log(TUTTI_LOG_ERROR, "the application ended the thread that served a request", 54);
		thread->is_over = true;
	} else if (RTEST(rb_obj_is_kind_of(exception, rb_eSystemExit))) {
		int status = exit_status(exception);
		if (tutti_is_forked) {
			end_forked(status);
		}
		log_exit(thread, status);
		thread->is_over = true;
	} else if (!is_of_the_client(thread, exception)) {
		log_exception(exception, "");
	}
	if (tutti_is_forked) {
		end_forked(1);
	}
	give_up(thread);
}

static VALUE flush_errors(VALUE errors)
{
	return rb_funcall(errors, id_flush, 0);
}

static void serve_request(tutti_thread *thread, const tutti_request *request)
{
	service service = { thread, Qnil, Qnil, Qnil };
	int state;
	thread->serial++;
	thread->is_started = thread->is_ended = thread->is_gone = false;
	thread->is_head = request->method.len == 4 && memcmp(request->method.data, "HEAD", 4) == 0;
	thread->request = request;
	rb_protect(serve, (VALUE) &service, &state);
	if (state) {
		service.exception = take_exception();
		fail(thread, service.exception);
	} else if (tutti_is_forked) {
		end_forked(0);
	}
	if (!NIL_P(service.environment)) {
		rb_protect(run_finished, (VALUE) &service, &state);
		if (state) {
			VALUE exception = take_exception();
			if (!NIL_P(exception) && RTEST(rb_obj_is_kind_of(exception, rb_eSystemExit))) {
				log_exit(thread, exit_status(exception));
				thread->is_over = true;
			} else {
				log_exception(exception, "in a handler of rack.response_finished: ");
			}
		}
	}
	if (tutti_is_forked) {
		end_forked(0);
	}
	/* The rest of rack.errors, which has no end of line. */
	VALUE rest = rb_ivar_get(thread->errors, id_rest);
	if (RB_TYPE_P(rest, T_STRING) && RSTRING_LEN(rest) > 0) {
		protect(flush_errors, thread->errors, NULL);
	}
	thread->request = NULL;
	RB_GC_GUARD(service.environment);
	RB_GC_GUARD(service.response);
}

typedef struct {
	tutti_thread *thread;
	const tutti_request *request;
	int next;
} waiting;

static void *wait_away(void *argument)
{
	waiting *call = argument;
	call->next = host_next(call->thread->serving, &call->request);
	return NULL;
}

static VALUE wait(VALUE argument)
{
	rb_thread_call_without_gvl(wait_away, (void *) argument, NULL, NULL);
	return Qnil;
}

static void serve_requests(tutti_thread *thread)
{
	while (!thread->is_over) {
		waiting call = { .thread = thread, .next = -1 };
		int state;
		rb_protect(wait, (VALUE) &call, &state);
		if (state) {
			VALUE exception = take_exception();
			log_exception(exception, "while no request was served: ");
			thread->is_over = NIL_P(exception);
		}
		/* An exception may have come before the wait, or with a request. */
		if (call.next == TUTTI_REQUEST) {
			serve_request(thread, call.request);
			host_done(thread->serving, thread->is_over);
		} else if (call.next == TUTTI_LEAVE) {
			return;
		}
	}
}

typedef struct {
	void *place;
	VALUE queue;
} beginning;

/* The main function of a thread. It tells the queue `nil`, or why it does not serve. */
static VALUE run_thread(void *argument)
{
	beginning *given = argument;
	beginning begin = *given;
	free(given);
	int state;
	rb_protect(call_hook, ID2SYM(rb_intern("on_thread_boot")), &state);
	tutti_thread *thread = state ? NULL : calloc(1, sizeof(tutti_thread));
	if (!thread) {
		VALUE text = text_of(take_exception());
		host_forget(begin.place);
		rb_funcall(begin.queue, id_push, 1, text);
		return Qnil;
	}
	thread->native = pthread_self();
	thread->errors = tutti_errors_new();
	thread->serving = host_begin(begin.place);
	thread->next = tutti_first;
	tutti_first = thread;
	rb_funcall(begin.queue, id_push, 1, Qnil);
	serve_requests(thread);
	protect(call_hook, ID2SYM(rb_intern("on_thread_shutdown")), NULL);
	host_end(thread->serving);
	return Qnil;
}

static VALUE start_thread(VALUE argument)
{
	beginning *begin = malloc(sizeof *begin);
	if (!begin) {
		rb_memerror();
	}
	begin->place = (void *) argument;
	begin->queue = rb_class_new_instance(0, NULL, rb_path2class("Thread::Queue"));
	VALUE queue = begin->queue;
	VALUE thread = rb_thread_create(run_thread, begin);
	rb_ary_push(tutti.threads, thread);
	VALUE fault = rb_funcall(queue, id_pop, 0);
	if (!NIL_P(fault)) {
		rb_raise(rb_eRuntimeError, "%" PRIsVALUE, fault);
	}
	RB_GC_GUARD(queue);
	return Qnil;
}

/* Starts a thread, and waits until it serves. */
int tutti_ruby_start_thread(void *place, char **message)
{
	*message = NULL;
	return protect(start_thread, (VALUE) place, message);
}

static VALUE join(VALUE thread)
{
	return rb_funcall(thread, id_join, 0);
}

static VALUE wait_a_little(VALUE argument)
{
	rb_thread_wait_for((struct timeval) { .tv_usec = 50000 });
	return Qnil;
}

/* Waits until every thread has ended. The handlers of signals (`trap`) run here meanwhile. */
void tutti_ruby_join(void)
{
	for (long i = 0; i < RARRAY_LEN(tutti.threads); i++) {
		while (protect(join, rb_ary_entry(tutti.threads, i), NULL)) {
			/* A handler has raised, or called `exit`: the process is to leave, when its requests are done. */
			host_stop();
		}
	}
	/* Connections that the application has taken over go on, until they end or the server has waited long enough. */
	while (host_has_connections()) {
		protect(wait_a_little, Qnil, NULL);
	}
	protect(call_hook, ID2SYM(rb_intern("on_worker_shutdown")), NULL);
}

void tutti_ruby_end(void)
{
	ruby_cleanup(0);
}

/* Resident scripts: booted once, then asked again and again through tutti_handle_request().
 *
 * One life of such a script is one request to PHP as a whole, started by php_request_startup() and ended by php_request_shutdown(). What lies
 * between two requests of clients is done here piece by piece: output layer, SAPI state (fields, body, uploads), superglobals, time limit,
 * shutdown functions; the rest is in baseline.c. A fatal error leaves PHP's state in the middle of things, so it ends this life and the process:
 * PHP cleans up as after any request, and another process takes over. No bailout is caught in between.
 */

#include <php.h>
#include <php_main.h>
#include <php_output.h>
#include <php_variables.h>
#include <ext/standard/basic_functions.h>
#include <SAPI.h>
#include <zend_exceptions.h>
#include <zend_interfaces.h>
#include <sys/mman.h>
#include "internal.h"

/* Shared by all workers of this application. */
static struct {
	_Atomic uint64_t resets;       /* how often one has called opcache_reset() */
	_Atomic bool is_life_a_request; /* no life may serve a second request */
} *shared;

static struct {
	uint64_t booted_at; /* number of resets then */
	bool has_looped;    /* tutti_handle_request() was called */
	bool is_serving;    /* a request is being answered */
	bool has_served;    /* one was */
	bool must_leave;    /* the next call gives false */
	bool must_reboot;   /* and the script is to be booted anew */
	bool restart_session;
	bool auto_start;
	zend_long time_limit;
} state;

/* A worker that runs holds on to opcache's memory, so the cache is never emptied while one does. What opcache_reset() is called for, new code
 * after a change, comes another way: every script in the cache is marked as stale, and all workers of the application boot anew before their
 * next request. */
static PHP_FUNCTION(resident_opcache_reset)
{
	zval function, status, arguments[2], result, *scripts;
	zend_string *path;

	ZEND_PARSE_PARAMETERS_NONE();
	ZVAL_STRING(&function, "opcache_get_status");
	ZVAL_TRUE(&arguments[0]);
	ZVAL_UNDEF(&status);
	call_user_function(NULL, NULL, &function, &status, 1, arguments);
	zval_ptr_dtor(&function);
	if (Z_TYPE(status) != IS_ARRAY) {
		zval_ptr_dtor(&status);
		RETURN_FALSE;
	}
	scripts = zend_hash_str_find(Z_ARRVAL(status), ZEND_STRL("scripts"));
	if (scripts && Z_TYPE_P(scripts) == IS_ARRAY) {
		ZVAL_STRING(&function, "opcache_invalidate");
		ZEND_HASH_FOREACH_STR_KEY(Z_ARRVAL_P(scripts), path) {
			if (path) {
				ZVAL_STR(&arguments[0], path);
				ZVAL_TRUE(&arguments[1]);
				ZVAL_UNDEF(&result);
				call_user_function(NULL, NULL, &function, &result, 2, arguments);
				zval_ptr_dtor(&result);
			}
		} ZEND_HASH_FOREACH_END();
		zval_ptr_dtor(&function);
	}
	zval_ptr_dtor(&status);
	shared->resets++;
	RETURN_TRUE;
}

/* In the prototype, once, after PHP has started. */
int tutti_resident_startup(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) {
		return 0;
	}
	zend_function *reset = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("opcache_reset"));
	if (reset && reset->type == ZEND_INTERNAL_FUNCTION) {
		reset->internal_function.handler = ZEND_FN(resident_opcache_reset);
	}
	tutti_baseline_startup();
	tutti_declared_startup();
	tutti_boot_startup();
	return 1;
}

/* Output, fields and body of a request that is over. `SG(server_context)` may be gone. */
static void drop_sapi_state(void)
{
	if (Z_TYPE(SG(callback_func)) != IS_UNDEF) {
		zval_ptr_dtor(&SG(callback_func));
		ZVAL_UNDEF(&SG(callback_func));
	}
	sapi_deactivate();
	/* Freed, but not forgotten: PHP would free them again. */
	SG(request_info).content_type_dup = NULL;
	SG(request_info).current_user = NULL;
	SG(request_info).cookie_data = NULL;
	SG(request_info).post_entry = NULL;
}

/* The body's temporary stream. PHP leaves it to the end of the script, and php://input has its bare address: those go first. */
static void close_body(void)
{
	php_stream *body = SG(request_info).request_body;
	zend_resource *resource;

	if (!body) {
		return;
	}
	bool is_found;
	do {
		is_found = false;
		ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
			php_stream *stream = resource->type == php_file_le_stream() ? resource->ptr : NULL;
			if (stream && stream->ops && strcmp(stream->ops->label, "Input") == 0) {
				/* As fclose(): who holds it finds it closed. */
				php_stream_free(stream, PHP_STREAM_FREE_KEEP_RSRC | PHP_STREAM_FREE_CLOSE);
				is_found = true;
				break; /* the list has changed */
			}
		} ZEND_HASH_FOREACH_END();
	} while (is_found);
	SG(request_info).request_body = NULL;
	php_stream_free(body, PHP_STREAM_FREE_CLOSE);
}

/* Does what PHP does at the end of a script with an uncaught exception; `exit` is one. */
static void report_exception(void)
{
	if (!EG(exception)) {
		return;
	}
	if (!zend_is_unwind_exit(EG(exception)) && Z_TYPE(EG(user_exception_handler)) != IS_UNDEF) {
		zend_user_exception_handler();
	}
	if (EG(exception)) {
		zend_exception_error(EG(exception), E_ERROR);
	}
	EG(exception) = NULL;
	if (EG(prev_exception)) {
		OBJ_RELEASE(EG(prev_exception));
		EG(prev_exception) = NULL;
	}
}

/* PHP catches bailouts in shutdown functions itself. Its state is as spoilt as after any other. */
static void look_for_bailout(void)
{
	if (UNEXPECTED(CG(unclean_shutdown))) {
		zend_bailout();
	}
}

/* $_SERVER, $_ENV and $_REQUEST are made when code that names them is compiled: here once, so they are made anew if ever named. */
static void make_superglobals(void)
{
	zend_auto_global *global;
	zend_string *used[16];
	size_t count = 0;

	ZEND_HASH_MAP_FOREACH_PTR(CG(auto_globals), global) {
		if (global->jit && !global->armed && count < sizeof(used) / sizeof(used[0])) {
			used[count++] = global->name;
		}
	} ZEND_HASH_FOREACH_END();
	for (int i = 0; i < NUM_TRACK_VARS; i++) {
		zval_ptr_dtor(&PG(http_globals)[i]);
	}
	php_hash_environment();
	for (size_t i = 0; i < count; i++) {
		zend_is_auto_global(used[i]);
	}
}

/* As php_request_startup() has it. */
static void start_output(void)
{
	if (PG(expose_php)) {
		sapi_add_header(SAPI_PHP_VERSION_HEADER, sizeof(SAPI_PHP_VERSION_HEADER) - 1, 1);
	}
	if (PG(output_handler) && PG(output_handler)[0]) {
		zval handler;
		ZVAL_STRING(&handler, PG(output_handler));
		php_output_start_user(&handler, 0, PHP_OUTPUT_HANDLER_STDFLAGS);
		zval_ptr_dtor(&handler);
	} else if (PG(output_buffering)) {
		php_output_start_user(NULL, PG(output_buffering) > 1 ? PG(output_buffering) : 0, PHP_OUTPUT_HANDLER_STDFLAGS);
	} else if (PG(implicit_flush)) {
		php_output_set_implicit_flush(1);
	}
}

/* Output of the script outside of a request goes to the log, and its fields nowhere. */
static void end_interval(void)
{
	bool is_clean = OG(flags) == PHP_OUTPUT_ACTIVATED && !OG(active) && !SG(headers_sent)
		&& zend_llist_count(&SG(sapi_headers).headers) == 0 && !SG(sapi_headers).http_status_line && !SG(sapi_headers).mimetype;
	if (is_clean) {
		return;
	}
	php_output_end_all();
	SG(request_info).no_headers = 1;
	php_output_deactivate();
	drop_sapi_state();
	php_output_activate();
}

static void begin_request(const tutti_request *request)
{
	tutti_finished = 0;
	tutti_variables_request();
	tutti_describe_request(request);
	state.is_serving = true;
	PG(connection_status) = PHP_CONNECTION_NORMAL;
	PG(header_is_being_sent) = 0;
	PG(in_user_include) = 0;
	if (request->has_body) {
		zend_set_timeout(PG(max_input_time) == -1 ? state.time_limit : PG(max_input_time), 1);
	}
	sapi_activate();
	SG(request_info).proto_num = request->protocol;
	SG(sapi_started) = 1;
	start_output();
	make_superglobals();
	tutti_baseline_begin_modules(state.restart_session);
	state.restart_session = false;
	if (state.time_limit > 0) {
		zend_set_timeout(state.time_limit, 0);
	}
}

static void end_request(void)
{
	report_exception();
	look_for_bailout();
	if (BG(user_shutdown_function_names)) {
		php_call_shutdown_functions();
		look_for_bailout();
		report_exception();
	}
	/* One by one: what goes wrong in a callback may still be an error 500 while the outermost buffer keeps the head back. */
	while (OG(active) && php_output_end() == SUCCESS) {
		report_exception();
	}
	php_output_end_all();
	report_exception();
	look_for_bailout();
	zend_unset_timeout();
	state.restart_session = tutti_baseline_end_modules();
	report_exception();
	look_for_bailout();
	php_output_deactivate();
	/* The client has its answer: all that follows is for the next one. */
	tutti_finish_response(0);
	php_free_shutdown_functions();
	report_exception();
	look_for_bailout();
	close_body();
	drop_sapi_state();
	tutti_forget_request();
	php_output_activate();
	tutti_baseline_restore();
	report_exception();
	look_for_bailout();
	tutti_declared_end_request();
	/* sapi_deactivate() says so; but `header()` between two requests must find a started SAPI. */
	SG(sapi_started) = 1;
	if (tutti_recycle) {
		state.must_leave = true;
	}
	state.is_serving = false;
	state.has_served = true;
	host_done(tutti_recycle);
}

/* The script in this process may not answer the request that has come. */
static bool is_outdated(void)
{
	return shared->resets != state.booted_at || (state.has_served && shared->is_life_a_request) || tutti_declared_changed();
}

static void end_boot(void)
{
	state.has_looped = true;
	tutti_boot_tell_of_output();
	end_interval();
	report_exception();
	tutti_baseline_auto_start(state.auto_start);
	zend_unset_timeout();
	state.time_limit = zend_ini_long(ZEND_STRL("max_execution_time"), 0);
	tutti_baseline_take();
	if (tutti_baseline_in_session()) {
		tutti_boot_tell("has started a session, which belongs to no request and is closed,", "call `session_start()`");
	}
	/* Otherwise the first request would find it open, from any client. */
	state.restart_session = tutti_baseline_end_modules();
	tutti_declared_end_request();
	tutti_booting = false;
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_tutti_handle_request, 0, 1, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, handler, IS_CALLABLE, 0)
ZEND_END_ARG_INFO()

/* Waits for a request and lets `handler` answer it; false when the script is to end. */
PHP_FUNCTION(tutti_handle_request)
{
	zend_fcall_info call;
	zend_fcall_info_cache cache;
	zval result;

	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_FUNC(call, cache)
	ZEND_PARSE_PARAMETERS_END();
	if (state.is_serving) {
		zend_throw_error(NULL, "tutti_handle_request() cannot be called within a request");
		RETURN_THROWS();
	}
	if (EG(flags) & EG_FLAGS_IN_SHUTDOWN) {
		zend_throw_error(NULL, "tutti_handle_request() cannot be called when the script has ended");
		RETURN_THROWS();
	}
	if (tutti_is_child) {
		/* Requests are its parent's. */
		RETURN_FALSE;
	}
	if (!state.has_looped) {
		end_boot();
	} else {
		end_interval();
	}
	if (state.must_leave) {
		RETURN_FALSE;
	}
	const tutti_request *request = host_next();
	if (!request) {
		state.must_leave = true;
		RETURN_FALSE;
	}
	if (is_outdated()) {
		/* The request waits for the next life. */
		host_keep();
		state.must_leave = state.must_reboot = true;
		RETURN_FALSE;
	}
	begin_request(request);
	ZVAL_UNDEF(&result);
	call.retval = &result;
	zend_call_function(&call, &cache);
	tutti_end_child();
	zval_ptr_dtor(&result);
	end_request();
	RETURN_TRUE;
}

const zend_function_entry tutti_resident_functions[] = {
	PHP_FE(tutti_handle_request, arginfo_tutti_handle_request)
	PHP_FE_END
};

/* One life of the script; how it ended. */
int tutti_php_resident(const tutti_script *script)
{
	volatile bool is_started = false;
	int end;

	memset(&state, 0, sizeof(state));
	state.booted_at = shared->resets;
	tutti_finished = 0;
	tutti_recycle = 0;
	tutti_booting = true;
	tutti_boot_begin();
	state.auto_start = tutti_baseline_auto_start(false);
	zend_first_try {
		tutti_forget_request();
		SG(request_info).path_translated = (char *) script->file;
		SG(request_info).cookie_data = NULL;
		SG(sapi_headers).http_response_code = 200;
		is_started = php_request_startup() == SUCCESS;
		if (is_started) {
			tutti_declared_begin_life();
			tutti_run_script(script);
		}
	} zend_end_try();
	bool is_clean = !CG(unclean_shutdown);
	bool is_lost = state.is_serving;
	if (!state.has_looped && !tutti_is_child) {
		tutti_boot_tell_end();
		tutti_baseline_auto_start(state.auto_start);
	}
	tutti_booting = false;
	if (is_lost && tutti_declared_conflict()) {
		shared->is_life_a_request = true;
	}
	/* A bailout has left the calls where they were: from here on nothing refers to them. */
	tutti_baseline_leave(is_clean);
	zend_try {
		php_request_shutdown(NULL);
	} zend_catch {
		is_started = false;
	} zend_end_try();
	tutti_end_child();
	tutti_declared_end_life();
	if (is_lost) {
		/* The state is in doubt, also after PHP has cleaned up: another process takes over. */
		host_done(1);
	}
	tutti_forget_request();
	if (!is_started) {
		end = TUTTI_LIFE_BROKEN;
	} else if (!state.has_looped) {
		end = TUTTI_LIFE_NO_LOOP;
	} else if (is_lost) {
		end = tutti_recycle ? TUTTI_LIFE_OVER : TUTTI_LIFE_FATAL;
	} else if (state.must_reboot) {
		end = TUTTI_LIFE_REBOOT;
	} else {
		end = TUTTI_LIFE_OVER;
	}
	memset(&state, 0, sizeof(state));
	return end;
}

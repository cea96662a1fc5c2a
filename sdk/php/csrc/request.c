/* The life of one request inside PHP: start, run the script, end. Catches every bailout. */

#include <php.h>
#include <php_main.h>
#include <php_output.h>
#include <ext/random/php_random.h>
#include <SAPI.h>
#include <zend_observer.h>
#include <zend_stream.h>
#include <pthread.h>
#include <unistd.h>
#include "internal.h"

/* The look at the folder that this process stands in, as last set here; 0 when a script may have moved. */
static uint64_t standing_in;
static zif_handler php_chdir;
#if ZEND_DEBUG
# error "debug builds of PHP are not supported"
#endif
#if PHP_VERSION_ID < 80200
# error "PHP older than 8.2 is not supported"
#endif
#ifdef ZTS
# error "thread-safe builds of PHP are not supported: processes are the unit of concurrency"
#endif

/* PHP's chdir(), noting that the next request must go back. Cheaper than getcwd() and chdir() at every request. */
static PHP_FUNCTION(noting_chdir)
{
	standing_in = 0;
	php_chdir(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* A process that user code forks has no response: the one it sees is its parent's. */
static void note_child(void)
{
	tutti_is_child = true;
	tutti_finished = 1;
}

void tutti_end_child(void)
{
	if (UNEXPECTED(tutti_is_child)) {
		/* Not exit(): what stdio, PHP's modules and the worker hold belongs to the parent. */
		_exit(EG(exit_status));
	}
}

void tutti_request_worker(void)
{
	tutti_is_child = false;
	/* A preloaded script may have drawn numbers in the prototype: each worker must draw its own. */
	RANDOM_G(combined_lcg_seeded) = false;
	RANDOM_G(mt19937_seeded) = false;

	zend_function *function = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("chdir"));
	if (function && function->type == ZEND_INTERNAL_FUNCTION && !php_chdir) {
		php_chdir = function->internal_function.handler;
		function->internal_function.handler = ZEND_FN(noting_chdir);
	}
	standing_in = 0;
}

int tutti_finish_response(int script_goes_on)
{
	if (tutti_finished) {
		return 0;
	}
	tutti_finished = 1;
	host_finish(script_goes_on);
	return 1;
}

void tutti_describe_request(const tutti_request *request)
{
	SG(server_context) = (void *) request;
	SG(request_info).request_method = request->method;
	SG(request_info).query_string = (char *) request->query;
	SG(request_info).request_uri = (char *) request->target;
	SG(request_info).path_translated = (char *) request->script.file;
	SG(request_info).content_type = request->content_type;
	SG(request_info).content_length = (zend_long) request->content_length;
	SG(request_info).proto_num = request->protocol;
	SG(sapi_headers).http_response_code = 200;
	SG(request_info).auth_user = NULL;
	SG(request_info).auth_password = NULL;
	SG(request_info).auth_digest = NULL;
	if (request->authorization) {
		php_handle_auth_data(request->authorization);
	}
}

void tutti_forget_request(void)
{
	SG(server_context) = NULL;
	SG(request_info).request_method = NULL;
	SG(request_info).query_string = NULL;
	SG(request_info).request_uri = NULL;
	SG(request_info).path_translated = NULL;
	SG(request_info).content_type = NULL;
	SG(request_info).content_length = 0;
}

bool tutti_standing(bool now)
{
	if (now) {
		standing_in = UINT64_MAX;
	}
	return standing_in != 0;
}

void tutti_run_script(const tutti_script *script)
{
	zend_file_handle file;

	if (standing_in != script->directory_look) {
		standing_in = chdir(script->directory) == 0 ? script->directory_look : 0;
	}
	zend_stream_init_filename_ex(&file, zend_string_init(script->file, script->len, 0));
	zend_string_release(file.filename); /* the handle holds its own reference */
	file.primary_script = 1;
	php_execute_script(&file);
	zend_destroy_file_handle(&file);
}

/* The request has met a fatal error; it may have been an exception, which leaves nothing behind. */
static bool had_fatal_error;

static void note_error(int type, zend_string *file, const uint32_t line, zend_string *message)
{
	had_fatal_error |= (type & E_FATAL_ERRORS) != 0;
}

/* In the prototype, once, after PHP has started. */
void tutti_request_startup(void)
{
	zend_observer_error_register(note_error);
	pthread_atfork(NULL, NULL, note_child);
}

/* A fatal error that is no exception (memory limit, time limit, a class declared twice) is a bailout: it leaves PHP, or an extension, in the middle of
 * things. PHP's end of the request does not put right what it does not know of, so the process serves no other. `exit` in a shutdown function
 * and a client that goes are bailouts too, but at known places. */
static bool is_in_doubt(void)
{
	return had_fatal_error && CG(unclean_shutdown);
}

int tutti_php_serve(const tutti_request *request)
{
	volatile int result = TUTTI_FAILED;

	tutti_finished = 0;
	tutti_recycle = 0;
	had_fatal_error = false;
	tutti_variables_request();
	zend_first_try {
		tutti_describe_request(request);
		tutti_nothing_to_parse = !request->has_body;
		int started = php_request_startup();
		tutti_nothing_to_parse = false;
		if (EXPECTED(started == SUCCESS)) {
			tutti_run_script(&request->script);
			result = TUTTI_SERVED;
		}
	} zend_end_try();
	tutti_nothing_to_parse = false;
	zend_try {
		php_request_shutdown(NULL);
	} zend_catch {
		result = TUTTI_FAILED;
	} zend_end_try();
	tutti_end_child();
	if (is_in_doubt()) {
		tutti_recycle = 1;
	}
	tutti_forget_request();
	if (tutti_recycle || result == TUTTI_FAILED) {
		return result == TUTTI_FAILED ? TUTTI_FAILED : TUTTI_RECYCLE;
	}
	return TUTTI_SERVED;
}

/* The SAPI module: what PHP calls to talk to its server. Every callback hands over to Rust (host_*) at once. */

#include <php.h>
#include <php_main.h>
#include <php_output.h>
#include <php_variables.h>
#include <SAPI.h>
#include <zend_exceptions.h>
#include <zend_ini.h>
#include <zend_signal.h>
#include <signal.h>
#include "internal.h"

/* More fields than this are sent none the less: the array grows on the heap. */
#define FIELDS_INLINE 64

/* The client has gone: unless the script objects, it ends. PHP's own way is a bailout, which would cost a resident script its life; there the
 * request ends as by `exit`. */
static void client_gone(void)
{
	if (!tutti_resident || !SG(server_context)) {
		php_handle_aborted_connection();
		return;
	}
	PG(connection_status) = PHP_CONNECTION_ABORTED;
	php_output_set_status(PHP_OUTPUT_DISABLED);
	if (PG(ignore_user_abort) || EG(exception) || !EG(current_execute_data)) {
		return;
	}
	if (EG(current_execute_data)->func && ZEND_USER_CODE(EG(current_execute_data)->func->type)) {
		zend_throw_unwind_exit();
	} else {
		EG(exception) = zend_create_unwind_exit();
	}
}

static size_t sapi_ub_write(const char *data, size_t len)
{
	if (UNEXPECTED(tutti_resident && !SG(server_context))) {
		host_output(data, len);
		return len;
	}
	if (tutti_finished) {
		/* After fastcgi_finish_request() the response has no reader; the script goes on undisturbed. */
		return len;
	}
	size_t written = host_write(data, len);
	if (UNEXPECTED(written < len)) {
		client_gone();
	}
	return written;
}

static void sapi_flush_output(void *server_context)
{
	/* As in FPM: without output yet there is no head to send, so header() still works after flush(). */
	if (!server_context || tutti_finished || !SG(headers_sent)) {
		return;
	}
	if (!host_flush()) {
		client_gone();
	}
}

/* `Status: 404` sets the status, as CGI has it, unless the script chose one in another way. */
static unsigned status_of(const tutti_bytes *value)
{
	unsigned status = 0;
	for (size_t i = 0; i < value->len && i < 3; i++) {
		if (value->data[i] < '0' || value->data[i] > '9') {
			return 0;
		}
		status = status * 10 + (unsigned) (value->data[i] - '0');
	}
	return status;
}

static int sapi_send_response_head(sapi_headers_struct *headers)
{
	tutti_field inline_fields[FIELDS_INLINE];
	tutti_field *fields = inline_fields;
	size_t count = 0, limit = zend_llist_count(&headers->headers);
	unsigned status = headers->http_response_code ? (unsigned) headers->http_response_code : 200;
	zend_llist_position position;

	if (!SG(server_context) || tutti_finished) {
		return SAPI_HEADER_SENT_SUCCESSFULLY;
	}
	if (limit > FIELDS_INLINE) {
		fields = safe_emalloc(limit, sizeof(tutti_field), 0);
	}
	for (sapi_header_struct *h = zend_llist_get_first_ex(&headers->headers, &position); h;
	     h = zend_llist_get_next_ex(&headers->headers, &position)) {
		const char *colon = memchr(h->header, ':', h->header_len);
		if (!colon || colon == h->header) {
			continue;
		}
		tutti_field *field = &fields[count];
		const char *value = colon + 1, *end = h->header + h->header_len;
		while (value < end && (*value == ' ' || *value == '\t')) {
			value++;
		}
		while (end > value && (end[-1] == ' ' || end[-1] == '\t')) {
			end--;
		}
		field->name = (tutti_bytes){h->header, (size_t) (colon - h->header)};
		field->value = (tutti_bytes){value, (size_t) (end - value)};
		if (field->name.len == 6 && strncasecmp(field->name.data, "status", 6) == 0) {
			unsigned given = status_of(&field->value);
			if (given && status == 200 && !headers->http_status_line) {
				status = given;
				headers->http_response_code = (int) given;
			}
			continue;
		}
		if (field->name.len == 12 && memcmp(field->name.data, "Content-type", 12) == 0) {
			field->name.data = "Content-Type"; /* PHP's own spelling, put in place of the script's */
		}
		count++;
	}
	/* A final answer cannot be an interim one (SOAP clients of old sent `100 Continue` here). */
	if (status < 200 || status > 599) {
		status = status < 200 && status >= 100 ? 200 : 500;
	}
	host_start(status, fields, count);
	if (fields != inline_fields) {
		efree(fields);
	}
	return SAPI_HEADER_SENT_SUCCESSFULLY;
}

static size_t sapi_read_body(char *buffer, size_t len)
{
	/* A short count means the end of the body to PHP. */
	const tutti_request *request = SG(server_context);
	if (tutti_finished || !request || !request->has_body) {
		return 0;
	}
	size_t count = host_read(buffer, len);
	if (count < len && host_is_client_gone()) {
		/* Perhaps it has not come to its end: connection_aborted() tells. */
		PG(connection_status) |= PHP_CONNECTION_ABORTED;
	}
	return count;
}

static char *sapi_cookies(void)
{
	const tutti_request *request = SG(server_context);
	return request ? (char *) request->cookie : NULL;
}

static void sapi_log(const char *message, int syslog_type)
{
	host_log(message, strlen(message), syslog_type);
}

static zend_result sapi_request_time(double *time)
{
	const tutti_request *request = SG(server_context);
	if (!request) {
		return FAILURE;
	}
	*time = request->time;
	return SUCCESS;
}

static void sapi_terminate(void)
{
	tutti_recycle = 1;
}

static int sapi_begin_of_request(void)
{
	tutti_user_ini_apply();
	return SUCCESS;
}

static int sapi_end_of_request(void)
{
	/* Reached after the output layer and the extensions (sessions) are closed: the answer is complete. */
	if (SG(server_context)) {
		tutti_finish_response(0);
	}
	return SUCCESS;
}

static PHP_MINIT_FUNCTION(tutti)
{
	/* Where the adapters for frameworks are. */
	REGISTER_STRING_CONSTANT("TUTTI_RESIDENT", (char *) tutti_adapters, CONST_CS | CONST_PERSISTENT);
	return SUCCESS;
}

static zend_module_entry tutti_module = {
	STANDARD_MODULE_HEADER, "tutti", NULL, PHP_MINIT(tutti), NULL, NULL, NULL, NULL, NULL, STANDARD_MODULE_PROPERTIES,
};

/* Resident mode only. Runs first when opcache preloads: after its JIT has looked for handlers of opcodes, which it does not bear when it starts, and before
 * any code is compiled that they are for. */
static PHP_RINIT_FUNCTION(tutti)
{
	tutti_declared_handle_opcodes();
	return SUCCESS;
}

static int sapi_module_startup(struct _sapi_module_struct *module)
{
	tutti_module.request_startup_func = tutti_resident ? PHP_RINIT(tutti) : NULL;
	return php_module_startup(module, &tutti_module);
}

struct _sapi_module_struct tutti_sapi_module = {
	.name = "fpm-fcgi", /* docs/project/decisions: applications and opcache know this name */
	.pretty_name = "Tutti",
	.startup = sapi_module_startup,
	.shutdown = php_module_shutdown_wrapper,
	.activate = sapi_begin_of_request,
	.deactivate = sapi_end_of_request,
	.ub_write = sapi_ub_write,
	.flush = sapi_flush_output,
	.getenv = tutti_getenv,
	.sapi_error = php_error,
	.send_headers = sapi_send_response_head,
	.read_post = sapi_read_body,
	.read_cookies = sapi_cookies,
	.register_server_variables = tutti_register_variables,
	.log_message = sapi_log,
	.get_request_time = sapi_request_time,
	.terminate_process = sapi_terminate,
	.php_ini_ignore_cwd = 1,
};

/* The usual functions, and that of resident scripts where it works: `function_exists()` tells a script where it runs. */
static zend_function_entry all_functions[16];

static void choose_functions(void)
{
	size_t count = 0;
	for (const zend_function_entry *entry = tutti_functions; entry->fname; entry++) {
		all_functions[count++] = *entry;
	}
	for (const zend_function_entry *entry = tutti_resident_functions; tutti_resident && entry->fname; entry++) {
		all_functions[count++] = *entry;
	}
}

int tutti_php_startup(const char *ini_file, const char *ini_entries, int is_resident, const char *resident_folder)
{
	tutti_resident = is_resident;
	tutti_adapters = resident_folder;
	signal(SIGPIPE, SIG_IGN);
#ifdef ZEND_SIGNALS
	zend_signal_startup();
	/* Else PHP installs its seven signal handlers anew at every request: seven system calls. */
	SIGG(reset) = 0;
#endif
	sapi_startup(&tutti_sapi_module);
	tutti_sapi_module.php_ini_path_override = (char *) ini_file;
	tutti_sapi_module.ini_entries = (char *) ini_entries;
	choose_functions();
	tutti_sapi_module.additional_functions = all_functions;
	if (tutti_sapi_module.startup(&tutti_sapi_module) == FAILURE) {
		return 0;
	}
	/* The working folder is kept by request.c, which knows when it need not be set again. */
	SG(options) |= SAPI_OPTION_NO_CHDIR;
	tutti_variables_startup();
	tutti_request_startup();
	tutti_user_ini_startup();
	tutti_timer_startup();
	tutti_locks_startup();
	tutti_where_startup();
	return !tutti_resident || tutti_resident_startup();
}

void tutti_php_worker_started(uint32_t worker)
{
	tutti_locks_worker(worker);
	tutti_where_worker();
	tutti_request_worker();
}

void tutti_php_shutdown(void)
{
	php_module_shutdown();
	sapi_shutdown();
}

/* The PHP functions that a web server adds: the same as FPM and Apache have. */

#include <php.h>
#include <php_output.h>
#include <ext/standard/head.h>
#include <SAPI.h>
#include "internal.h"

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_fastcgi_finish_request, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_headers, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

/* Sends all output and ends the answer; the script goes on without a client. */
PHP_FUNCTION(fastcgi_finish_request)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (!SG(server_context) || tutti_finished) {
		RETURN_FALSE;
	}
	php_output_end_all();
	php_header();
	RETURN_BOOL(tutti_finish_response(1));
}

PHP_FUNCTION(apache_request_headers)
{
	const tutti_field *fields;

	ZEND_PARSE_PARAMETERS_NONE();
	array_init(return_value);
	if (!SG(server_context)) {
		return;
	}
	size_t count = host_request_headers(&fields);
	for (size_t i = 0; i < count; i++) {
		zval value;
		ZVAL_STRINGL(&value, fields[i].value.data, fields[i].value.len);
		zend_symtable_str_update(Z_ARRVAL_P(return_value), fields[i].name.data, fields[i].name.len, &value);
	}
}

PHP_FUNCTION(apache_response_headers)
{
	zend_llist_position position;

	ZEND_PARSE_PARAMETERS_NONE();
	array_init(return_value);
	for (sapi_header_struct *h = zend_llist_get_first_ex(&SG(sapi_headers).headers, &position); h;
	     h = zend_llist_get_next_ex(&SG(sapi_headers).headers, &position)) {
		const char *colon = memchr(h->header, ':', h->header_len);
		if (!colon || colon == h->header) {
			continue;
		}
		const char *text = colon + 1;
		while (*text == ' ' || *text == '\t') {
			text++;
		}
		zval value;
		ZVAL_STRINGL(&value, text, (size_t) (h->header + h->header_len - text));
		zend_symtable_str_update(Z_ARRVAL_P(return_value), h->header, (size_t) (colon - h->header), &value);
	}
}

const zend_function_entry tutti_functions[] = {
	PHP_FE(fastcgi_finish_request, arginfo_fastcgi_finish_request)
	PHP_FE(apache_request_headers, arginfo_headers)
	PHP_FE(apache_response_headers, arginfo_headers)
	PHP_FALIAS(getallheaders, apache_request_headers, arginfo_headers)
	PHP_FE_END
};

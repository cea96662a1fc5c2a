/* `"preload": true`: the application's entry scripts are compiled into opcache before the first fork, so that no worker of a new
 * generation compiles them. They are compiled, not run: PHP forgets everything else a script leaves behind.
 */
#include <php.h>
#include <php_main.h>
#include <SAPI.h>
#include <zend_exceptions.h>
#include <zend_stream.h>
#include "internal.h"

int tutti_php_preload(const char *path)
{
	volatile int compiled = 0;
	zend_file_handle file;

	zend_first_try {
		tutti_nothing_to_parse = true;
		int started = php_request_startup();
		tutti_nothing_to_parse = false;
		if (started == SUCCESS) {
			zend_stream_init_filename(&file, path);
			zend_op_array *code = zend_compile_file(&file, ZEND_REQUIRE);
			compiled = code && !EG(exception);
			if (EG(exception)) {
				zend_exception_error(EG(exception), E_ERROR);
			}
			if (code) {
				destroy_op_array(code);
				efree(code);
			}
			zend_destroy_file_handle(&file);
		}
	} zend_catch {
		compiled = 0;
	} zend_end_try();
	tutti_nothing_to_parse = false;
	zend_try {
		php_request_shutdown(NULL);
	} zend_end_try();
	return compiled;
}

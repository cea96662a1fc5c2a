/* What the C files share with each other. */
#ifndef TUTTI_INTERNAL_H
#define TUTTI_INTERNAL_H

#include <php.h>
#include <SAPI.h>
#include "tutti.h"

extern sapi_module_struct tutti_sapi_module;
extern const zend_function_entry tutti_functions[];

/* The worker should leave after this request. */
extern int tutti_recycle;
/* The response is complete; what the script still writes goes nowhere. */
extern int tutti_finished;

/* variables.c */
void tutti_variables_startup(void);
void tutti_variables_request(void);
void tutti_register_variables(zval *array);
char *tutti_getenv(const char *name, size_t len);
int tutti_finish_response(int script_goes_on);

/* timer.c: while true no time limit is needed, because the request has no input that takes time. */
extern bool tutti_nothing_to_parse;
void tutti_timer_startup(void);

/* locks.c */
void tutti_locks_startup(void);
void tutti_locks_worker(uint32_t worker);

#endif

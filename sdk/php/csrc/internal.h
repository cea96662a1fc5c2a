/* The declarations that the C files share with each other. */
#ifndef TUTTI_INTERNAL_H
#define TUTTI_INTERNAL_H

#include <php.h>
#include <SAPI.h>
#include "tutti.h"

extern sapi_module_struct tutti_sapi_module;
extern const zend_function_entry tutti_functions[];

/* state.c */
/* The worker should leave after this request. */
extern int tutti_recycle;
/* The response is complete; what the script still writes goes nowhere. */
extern int tutti_finished;
/* This process was forked by user code: the request, and the worker's place, are its parent's. */
extern bool tutti_is_child;
/* The application is a resident script. */
extern bool tutti_resident;
/* The script of a resident application boots: no request, but $_SERVER has what is known. */
extern bool tutti_booting;
/* The folder of the adapters for frameworks. */
extern const char *tutti_adapters;

/* True if the entry is one of the first `older` ones of the table. */
static inline bool tutti_is_before(const HashTable *table, const zval *entry, uint32_t older)
{
	return (uint32_t) ((const Bucket *) entry - table->arData) < older;
}

/* variables.c */
void tutti_variables_startup(void);
void tutti_variables_request(void);
void tutti_register_variables(zval *array);
char *tutti_getenv(const char *name, size_t len);

/* timer.c: while true no time limit is needed, because the request has no input that takes time. */
extern bool tutti_nothing_to_parse;
void tutti_timer_startup(void);

/* request.c */
void tutti_request_startup(void);
void tutti_request_worker(void);
int tutti_finish_response(int script_goes_on);
/* Ends a process that user code has forked, once its request is over; else it returns. */
void tutti_end_child(void);
void tutti_describe_request(const tutti_request *request);
void tutti_forget_request(void);
void tutti_run_script(const tutti_script *script);
/* True if the process stands in the folder last set; or says that it does, in one that has no number. */
bool tutti_standing(bool now);

/* resident.c */
extern const zend_function_entry tutti_resident_functions[];
int tutti_resident_startup(void);

/* boot.c */
void tutti_boot_handle_opcodes(void);
void tutti_boot_startup(void);
void tutti_boot_begin(void);
void tutti_boot_tell(const char *what, const char *cure);
void tutti_boot_tell_of_output(void);
void tutti_boot_tell_end(void);

/* baseline.c */
void tutti_baseline_startup(void);
void tutti_baseline_take(void);
void tutti_baseline_restore(void);
void tutti_baseline_leave(bool is_clean);
bool tutti_baseline_in_session(void);
bool tutti_baseline_end_modules(void);
void tutti_baseline_begin_modules(bool restart_session);
bool tutti_baseline_auto_start(bool value);

/* declared.c */
void tutti_declared_startup(void);
void tutti_declared_handle_opcodes(void);
void tutti_declared_begin_life(void);
void tutti_declared_end_life(void);
void tutti_declared_end_request(void);
bool tutti_declared_changed(void);
bool tutti_declared_conflict(void);

/* constants.c */
void tutti_constants_startup(void);
void tutti_constants_handle_opcodes(void);
void tutti_constants_begin_life(void);
void tutti_constants_end_life(void);
void tutti_constants_end_request(bool was_boot);

/* user_ini.c */
void tutti_user_ini_startup(void);
void tutti_user_ini_apply(void);

/* where.c */
void tutti_where_startup(void);
void tutti_where_worker(void);

/* locks.c */
void tutti_locks_startup(void);
void tutti_locks_worker(uint32_t worker);

#endif

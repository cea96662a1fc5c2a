/* The threads that serve: the state that the parts of the C half share, and the calls to the router, which wait without the GVL. */

#include "internal.h"

tutti_state tutti;
tutti_thread *volatile tutti_first;
volatile int tutti_is_forked;

typedef struct {
	void *(*work)(void *);
	void *argument;
} away;

static VALUE go(VALUE argument)
{
	const away *call = (const away *) argument;
	rb_thread_call_without_gvl(call->work, call->argument, NULL, NULL);
	return Qnil;
}

void tutti_away(tutti_thread *thread, void *(*work)(void *), void *argument)
{
	away call = { work, argument };
	int state;
	thread->is_away = true;
	rb_protect(go, (VALUE) &call, &state);
	thread->is_away = false;
	if (state) {
		rb_jump_tag(state);
	}
}

void tutti_finish(tutti_thread *thread)
{
	if (!thread->is_ended && thread->request && !tutti_is_forked) {
		thread->is_ended = true;
		host_finish(thread->serving);
	}
}

typedef struct {
	tutti_thread *thread;
	tutti_bytes bytes;
	int result;
} writing;

static void *write_away(void *argument)
{
	writing *call = argument;
	call->result = host_write(call->thread->serving, call->bytes.data, call->bytes.len);
	return NULL;
}

/* Adds to the body. False: the client has gone. Waits without the GVL where it has to. */
bool tutti_write(tutti_thread *thread, VALUE string)
{
	tutti_bytes bytes = tutti_bytes_of(string);
	if (bytes.len == 0) {
		return true;
	}
	if (bytes.len <= host_room(thread->serving)) {
		return host_write(thread->serving, bytes.data, bytes.len) == 0;
	}
	/* Another thread may change the string meanwhile. */
	VALUE frozen = rb_str_new_frozen(string);
	writing call = { .thread = thread, .bytes = tutti_bytes_of(frozen) };
	tutti_away(thread, write_away, &call);
	RB_GC_GUARD(frozen);
	return call.result == 0;
}

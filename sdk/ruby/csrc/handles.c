/* The handles of a request that the application holds: rack.input below its Ruby part (lib/tutti.rb), and rack.errors.
 *
 * A handle knows the number of its request, so that one that is kept cannot touch a later request.
 */

#include "internal.h"

static const rb_data_type_t TYPE = {
	.wrap_struct_name = "Tutti::Input",
	.function = { .dfree = RUBY_TYPED_DEFAULT_FREE },
	.flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

VALUE tutti_handle_new(tutti_thread *thread, VALUE class)
{
	tutti_handle *handle;
	VALUE object = TypedData_Make_Struct(class, tutti_handle, &TYPE, handle);
	handle->thread = thread;
	handle->serial = thread->serial;
	handle->body = thread->request->body;
	handle->length = thread->request->content_length;
	return object;
}

tutti_handle *tutti_handle_of(VALUE object)
{
	tutti_handle *handle;
	TypedData_Get_Struct(object, tutti_handle, &TYPE, handle);
	return handle;
}

/* The thread that serves the handle's request; NULL when that has ended. Waits while another thread uses the request. */
static tutti_thread *find(VALUE object)
{
	const tutti_handle *handle = tutti_handle_of(object);
	tutti_thread *thread = handle->thread;
	while (thread->is_away && thread->serial == handle->serial && !tutti_is_forked) {
		rb_thread_wait_for((struct timeval) { .tv_usec = 1000 });
	}
	bool is_served = thread->request && thread->serial == handle->serial && !thread->is_ended && !tutti_is_forked;
	return is_served ? thread : NULL;
}

tutti_thread *tutti_serving(VALUE object)
{
	tutti_thread *thread = find(object);
	if (!thread) {
		rb_raise(rb_eIOError, "the request has ended");
	}
	return thread;
}

typedef struct {
	tutti_thread *thread;
	uint64_t offset;
	char *buffer;
	size_t len;
	ssize_t count;
} reading;

static void *read_away(void *argument)
{
	reading *call = argument;
	call->count = host_read(call->thread->serving, call->offset, call->buffer, call->len);
	return NULL;
}

/* pull(offset, length): bytes of the body from there on, at least one; empty at its end. */
static VALUE pull(VALUE self, VALUE offset, VALUE length)
{
	tutti_thread *thread = tutti_serving(self);
	long len = NUM2LONG(length);
	reading call = { .thread = thread, .offset = NUM2ULL(offset) };
	call.len = len < 0 ? 0 : (size_t) len;
	if (thread->request->body == TUTTI_BODY_INLINE) {
		const tutti_bytes *body = &thread->request->inline_body;
		size_t rest = call.offset < body->len ? body->len - call.offset : 0;
		return rb_str_new(rest ? body->data + call.offset : "", (long) (rest < call.len ? rest : call.len));
	}
	if (thread->request->body == TUTTI_BODY_NONE || call.len == 0) {
		return rb_str_new("", 0);
	}
	/* Memory that no other thread knows of, while this one waits without the GVL. */
	VALUE held;
	call.buffer = rb_alloc_tmp_buffer(&held, (long) call.len);
	tutti_away(thread, read_away, &call);
	if (call.count < 0) {
		rb_free_tmp_buffer(&held);
		rb_raise(rb_eIOError, host_is_client_gone(thread->serving) ? "the client has gone" : "the body cannot be read");
	}
	VALUE bytes = rb_str_new(call.buffer, call.count);
	rb_free_tmp_buffer(&held);
	return bytes;
}

/* The length that the client has told; nil when it has not. */
static VALUE length(VALUE self)
{
	const tutti_handle *handle = tutti_handle_of(self);
	if (handle->body == TUTTI_BODY_NONE) {
		return INT2FIX(0);
	}
	return handle->length < 0 ? Qnil : LL2NUM(handle->length);
}

static VALUE is_over(VALUE self)
{
	return find(self) ? Qfalse : Qtrue;
}

/* Tutti.log(text, is_warning): a line for each of its lines, at `error` or `warn`. */
static VALUE log_text(VALUE self, VALUE text, VALUE is_warning)
{
	StringValue(text);
	host_log(RTEST(is_warning) ? TUTTI_LOG_WARN : TUTTI_LOG_ERROR, RSTRING_PTR(text), (size_t) RSTRING_LEN(text));
	RB_GC_GUARD(text);
	return Qnil;
}

VALUE tutti_errors_new(void)
{
	VALUE errors = rb_class_new_instance(0, NULL, rb_const_get(tutti.module, rb_intern("Errors")));
	rb_gc_register_mark_object(errors);
	return errors;
}

void tutti_handles_define(void)
{
	VALUE input = rb_define_class_under(tutti.module, "Input", rb_cObject);
	rb_undef_alloc_func(input);
	rb_define_private_method(input, "pull", pull, 2);
	rb_define_method(input, "length", length, 0);
	rb_define_method(input, "over?", is_over, 0);
	rb_define_singleton_method(tutti.module, "log", log_text, 2);
	tutti.input_class = input;
}

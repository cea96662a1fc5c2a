/* The stream of a response whose body is called (Rack 3, "Streaming Body"). */

#include "internal.h"

static VALUE stream_class;
static ID id_call, id_wait;

/* write_bytes(bytes) of a stream: sent at once. False: the client has gone. */
static VALUE write_bytes(VALUE self, VALUE bytes)
{
	tutti_thread *thread = tutti_serving(self);
	StringValue(bytes);
	if (!tutti_write(thread, bytes) || host_flush(thread->serving) != 0) {
		thread->is_gone = true;
	}
	return thread->is_gone ? Qfalse : Qtrue;
}

static VALUE end_answer(VALUE self)
{
	const tutti_handle *handle = tutti_handle_of(self);
	tutti_thread *thread = handle->thread;
	if (thread->serial == handle->serial && thread->request && !thread->is_ended && !tutti_is_forked) {
		tutti_finish(tutti_serving(self));
	}
	return Qnil;
}

void tutti_stream_to(tutti_thread *thread, VALUE callable)
{
	bool is_stream = thread->request->body == TUTTI_BODY_STREAM;
	VALUE input = tutti_handle_new(thread, is_stream ? tutti.stream_input_class : tutti.input_class);
	VALUE stream = rb_class_new_instance(1, &input, stream_class);
	host_flush(thread->serving);
	rb_funcall(callable, id_call, 1, stream);
	/* The application may have given it to another thread. */
	rb_funcall(stream, id_wait, 0);
}

void tutti_streaming_define(void)
{
	id_call = rb_intern("call");
	id_wait = rb_intern("wait_closed");
	rb_define_method(tutti.input_class, "write_bytes", write_bytes, 1);
	rb_define_method(tutti.input_class, "end_answer", end_answer, 0);
	stream_class = rb_const_get(tutti.module, rb_intern("Stream"));
	rb_gc_register_mark_object(stream_class);
}

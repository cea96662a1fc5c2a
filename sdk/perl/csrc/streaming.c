/* Delayed and streaming responses (PSGI 1.1, "Delayed Response and Streaming Body"): the responder and the writer.
 *
 * Both know the number of their request, so that one that is kept cannot touch a later request.
 */

#include "internal.h"

const char tutti_gone[] = "the client has gone\n";

static tutti_perl *serving(pTHX_ UV serial, const char *what)
{
	tutti_perl *perl = tutti_current;
	if (!perl || perl->interpreter != aTHX || !perl->exchange || perl->serial != serial) {
		croak("%s was used after its request had ended", what);
	}
	return perl;
}

static void check_gone(pTHX_ tutti_perl *perl, int result)
{
	if (result != 0) {
		tutti_finish(perl);
		croak("%s", tutti_gone);
	}
}

XS_INTERNAL(xs_respond)
{
	dXSARGS;
	tutti_perl *perl = serving(aTHX_ XSANY.any_uv, "the responder");
	if (items != 1 || !SvROK(ST(0)) || SvTYPE(SvRV(ST(0))) != SVt_PVAV) {
		croak("the responder must be called with an array reference");
	}
	if (perl->is_started) {
		croak("the responder was called twice");
	}
	AV *response = (AV *) SvRV(ST(0));
	if (av_len(response) >= 2) {
		SV *answer = ST(0);
		tutti_respond(aTHX_ perl, answer);
		XSRETURN_EMPTY;
	}
	tutti_start(aTHX_ perl, response, -1);
	check_gone(aTHX_ perl, host_flush(perl->exchange));
	SV *writer = sv_2mortal(newRV_noinc(newSVuv(perl->serial)));
	sv_bless(writer, perl->writers);
	ST(0) = writer;
	XSRETURN(1);
}

static tutti_perl *writing(pTHX_ SV *self)
{
	if (!SvROK(self) || !SvIOK(SvRV(self))) {
		croak("this is no writer");
	}
	tutti_perl *perl = serving(aTHX_ SvUV(SvRV(self)), "the writer");
	if (perl->is_ended) {
		if (host_is_client_gone(perl->exchange)) {
			croak("%s", tutti_gone);
		}
		croak("the writer has been closed");
	}
	return perl;
}

XS_INTERNAL(xs_write)
{
	dXSARGS;
	if (items < 1) {
		croak("Usage: $writer->write($bytes)");
	}
	tutti_perl *perl = writing(aTHX_ ST(0));
	bool has_written = false;
	for (int i = 1; i < items; i++) {
		SV *piece = ST(i);
		STRLEN len;
		SvGETMAGIC(piece);
		if (!SvOK(piece)) {
			continue;
		}
		SvPV_nomg_const(piece, len);
		if (SvUTF8(piece)) {
			piece = sv_mortalcopy(piece);
			if (!sv_utf8_downgrade(piece, TRUE)) {
				croak("the body of a response has characters above 255: it must be encoded, for example by Encode::encode_utf8");
			}
		}
		const char *bytes = SvPV_nomg_const(piece, len);
		if (len > 0) {
			check_gone(aTHX_ perl, host_write(perl->exchange, bytes, len));
			has_written = true;
		}
	}
	if (has_written) {
		check_gone(aTHX_ perl, host_flush(perl->exchange));
	}
	XSRETURN_EMPTY;
}

XS_INTERNAL(xs_close)
{
	dXSARGS;
	if (items < 1) {
		croak("Usage: $writer->close");
	}
	tutti_perl *perl = tutti_current;
	/* Closing twice, or after the end, does nothing: code that cleans up does it. */
	if (perl && perl->interpreter == aTHX && perl->exchange && SvROK(ST(0)) && SvIOK(SvRV(ST(0))) && SvUV(SvRV(ST(0))) == perl->serial) {
		tutti_finish(perl);
	}
	XSRETURN_EMPTY;
}

void tutti_streaming_define(pTHX_ tutti_perl *perl)
{
	if (!get_cv("Tutti::Writer::write", 0)) {
		newXS("Tutti::Writer::write", xs_write, __FILE__);
		newXS("Tutti::Writer::close", xs_close, __FILE__);
	}
	perl->writers = gv_stashpvs("Tutti::Writer", GV_ADD);
}

/* Calls the code that the application has returned in place of a response, with a responder. */
static void delay(pTHX_ tutti_perl *perl, SV *callback)
{
	dSP;
	CV *responder = newXS(NULL, xs_respond, __FILE__);
	CvXSUBANY(responder).any_uv = perl->serial;
	PUSHMARK(SP);
	XPUSHs(sv_2mortal(newRV_noinc((SV *) responder)));
	PUTBACK;
	call_sv(callback, G_DISCARD | G_VOID);
	if (!perl->is_started) {
		croak("the application returned from its callback without having called the responder (psgi.nonblocking is false)");
	}
	tutti_finish(perl);
}

void tutti_send_answer(pTHX_ tutti_perl *perl, SV *response)
{
	SvGETMAGIC(response);
	if (!SvROK(response)) {
		croak("the application must return an array or a code reference, not %s", SvOK(response) ? "a plain value" : "undef");
	}
	SV *referent = SvRV(response);
	if (SvTYPE(referent) == SVt_PVCV || (SvTYPE(referent) != SVt_PVAV && SvAMAGIC(response))) {
		delay(aTHX_ perl, response);
	} else {
		tutti_respond(aTHX_ perl, response);
	}
}

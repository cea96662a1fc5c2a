/* The state of this process that the parts of the C half share. */

#include "internal.h"

__thread tutti_perl *tutti_current;
volatile int tutti_is_forked;
tutti_perl *volatile tutti_first;

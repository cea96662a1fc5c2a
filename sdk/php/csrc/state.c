/* The state of this process that the C files share. */

#include "internal.h"

int tutti_recycle;
int tutti_finished;
bool tutti_is_child;
bool tutti_resident;
bool tutti_booting;
const char *tutti_adapters;

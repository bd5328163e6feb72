#include "base/err.h"

const char *hr_err_text(enum hr_err err)
{
    static const char *const texts[] = {
#define X(name, text) text,
        HR_ERR_LIST(X)
#undef X
    };
    unsigned index = (unsigned)err;
    return index < sizeof(texts) / sizeof(texts[0]) ? texts[index] : "unknown error";
}

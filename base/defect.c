#include "base/defect.h"

#ifdef HEADROOM_DEFECTS

#include <string.h>

const struct hr_defect_form hr_defect_forms[HR_DEFECT_COUNT] = {{"none", "nothing"},
#define X(defect, name, text) {name, text},
                                                                HR_DEFECT_LIST(X)
#undef X
};

enum hr_defect hr_defect_chosen = HR_DEFECT_NONE;

bool hr_defect_choose(const char *name)
{
    for (enum hr_defect defect = HR_DEFECT_NONE; defect < HR_DEFECT_COUNT; defect++) {
        if (strcmp(hr_defect_forms[defect].name, name) == 0) {
            hr_defect_chosen = defect;
            return true;
        }
    }
    return false;
}
#endif

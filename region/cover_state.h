/* Cover state: what the files of COVER share about a counter. Nobody else includes this. */
#ifndef HR_REGION_COVER_STATE_H
#define HR_REGION_COVER_STATE_H

#include "region/cover.h"

/* NULL: it is not kept (any more). */
struct hr_cover_window *hr_cover_window(struct hr_cover *cover, int64_t label);

/* The home in force: while an epoch is being adopted, the smaller of both. */
int64_t hr_cover_home(const struct hr_cover *cover, const struct hr_cover_window *window, uint32_t region);
int64_t hr_cover_rights(const struct hr_cover *cover, const struct hr_cover_window *window);
int64_t hr_cover_keep(const struct hr_cover *cover, const struct hr_cover_window *window);
int64_t hr_cover_spare(const struct hr_cover *cover, const struct hr_cover_window *window);

/* Takes in what was spent, and sets what may be. */
void hr_cover_expose(struct hr_cover *cover);

#endif

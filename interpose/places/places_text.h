/* What messages say of the places that have been described. */
#ifndef NCCL_JOIN_INTERPOSE_PLACES_TEXT_H
#define NCCL_JOIN_INTERPOSE_PLACES_TEXT_H

#include <stddef.h>

#include "core/place/place.h"
#include "interpose/places/native/native_frames.h"

/* Makes the text of the calling thread's place, if there is none yet. frames: its native ones,
 * from the innermost outward. Those of the first few hundred places are kept, for good. */
void places_text_remember(const struct place *place, const struct native_frame *frames,
                          size_t count);

#endif

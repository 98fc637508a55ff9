// The likeliest token of one row of logits, and its probability.

#ifndef RSERVE_KERNELS_ARGMAX_ARGMAX_H_
#define RSERVE_KERNELS_ARGMAX_ARGMAX_H_

#include <cstdint>

namespace rserve::kernels {

// Index of the largest logit, the lowest one among equals. NaNs are passed over; -1 when `count`
// is 0 or all are NaN.
int64_t ArgMax(const float* logits, int64_t count);

// Natural logarithm of softmax(logits)[index]; summed in f64 in index order.
double LogProbability(const float* logits, int64_t count, int64_t index);

}  // namespace rserve::kernels

#endif  // RSERVE_KERNELS_ARGMAX_ARGMAX_H_

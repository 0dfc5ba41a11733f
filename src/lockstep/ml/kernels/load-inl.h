// lockstep/ml/kernels/load-inl.h
//
// Values of a row as float64, up to eight at once. Included once per instruction set.
#if defined(LOCKSTEP_ML_KERNELS_LOAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_ML_KERNELS_LOAD_INL_H_
#undef LOCKSTEP_ML_KERNELS_LOAD_INL_H_
#else
#define LOCKSTEP_ML_KERNELS_LOAD_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::ml::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Lanes = hn::CappedTag<double, 8>;
constexpr std::int64_t kLanes = hn::MaxLanes(Lanes());
/// Vectors of eight values.
constexpr std::int64_t kVectors = 8 / kLanes;

HWY_INLINE hn::Vec<Lanes> load(const double* x) { return hn::LoadU(Lanes(), x); }
HWY_INLINE hn::Vec<Lanes> load(const float* x) {
  return hn::PromoteTo(Lanes(), hn::LoadU(hn::Rebind<float, Lanes>(), x));
}
/// The first `count`, which may be 0, then zeros.
HWY_INLINE hn::Vec<Lanes> load_some(const double* x, std::int64_t count) {
  return hn::MaskedLoad(hn::FirstN(Lanes(), static_cast<std::size_t>(count)), Lanes(), x);
}
HWY_INLINE hn::Vec<Lanes> load_some(const float* x, std::int64_t count) {
  const hn::Rebind<float, Lanes> tag;
  return hn::PromoteTo(Lanes(), hn::MaskedLoad(hn::FirstN(tag, static_cast<std::size_t>(count)), tag, x));
}

}  // namespace lockstep::ml::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

#include "lockstep/models/sampling.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::models {
namespace {

struct Candidate {
  double score;  // later its weight: a probability but for a factor
  std::int64_t token;
};

bool likelier(const Candidate& one, const Candidate& other) {
  return one.score != other.score ? one.score > other.score : one.token < other.token;
}

std::vector<Candidate> candidates_of(const at::Tensor& scores) {
  const at::Tensor values = scores.to(at::kCPU, at::kDouble).contiguous();
  const auto* score = values.const_data_ptr<double>();
  std::vector<Candidate> all;
  all.reserve(static_cast<std::size_t>(values.numel()));
  for (std::int64_t token = 0; token < values.numel(); ++token) {
    if (std::isnan(score[token])) {
      fail(Fault::Data, fmt::format("the score of token {} is no number: the weights are spoilt", token));
    }
    all.push_back({score[token], token});
  }
  return all;
}

double sum_of_weights(const std::vector<Candidate>& all) {
  double sum = 0;
  for (const auto& one : all) sum += one.score;
  return sum;
}

/// `all` are weights, the largest first.
void keep_share(std::vector<Candidate>& all, double share) {
  const double enough = share * sum_of_weights(all);
  double sum = 0;
  std::size_t kept = 0;
  while (kept < all.size() && (kept == 0 || sum < enough)) sum += all[kept++].score;
  all.resize(kept);
}

}  // namespace

void Sampling::check() const {
  if (!(temperature >= 0) || std::isinf(temperature)) {
    fail(Fault::Usage,
         fmt::format("--temperature {}: it is a number from 0 on, and at 0 the likeliest token is taken", temperature));
  }
  if (top_k < 0) fail(Fault::Usage, fmt::format("--top-k {}: it is from 1 on, or 0 for all tokens", top_k));
  if (!(top_p > 0 && top_p <= 1)) {
    fail(Fault::Usage, fmt::format("--top-p {}: it is a share above 0 and up to 1, which is all tokens", top_p));
  }
}

std::int64_t draw(const at::Tensor& scores, const Sampling& how, Random& random) {
  auto all = candidates_of(scores);
  if (all.empty()) fail(Fault::Internal, "there are no tokens to draw from");
  const Candidate best = *std::min_element(all.begin(), all.end(), likelier);
  if (how.temperature == 0) return best.token;
  if (how.top_k > 0 || how.top_p < 1) {
    const auto limit = how.top_k > 0 ? std::min(static_cast<std::size_t>(how.top_k), all.size()) : all.size();
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(limit), all.end(), likelier);
    all.resize(limit);
  }
  for (auto& one : all) one.score = std::exp((one.score - best.score) / how.temperature);
  if (how.top_p < 1) keep_share(all, how.top_p);
  double rest = random.uniform() * sum_of_weights(all);
  for (const auto& one : all) {
    if (rest < one.score) return one.token;
    rest -= one.score;
  }
  return best.token;  // what rounding has left over
}

}  // namespace lockstep::models

#include "train/pipeline_drawing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "svg.h"

namespace lockstep::apps {
namespace {

using parallel::PipelineTimeline;
using parallel::PipelineWork;
using parallel::TimedAction;

constexpr double kLeft = 84, kRight = 24, kTop = 76;  // margins of the lanes
constexpr double kLane = 34, kGap = 6, kBox = 30;     // heights: a lane, the space between two, a box
constexpr double kLegendStep = 26;
constexpr double kDigit = 7;  // width, at the size of all words but the title; letters are narrower on average

struct Color {
  int red, green, blue;
};

struct Kind {
  PipelineWork work;
  std::string_view name;
  Color color;
};

// Of Okabe and Ito's palette, told apart by colour-blind readers too.
constexpr std::array kKinds{Kind{PipelineWork::Forward, "forward", {0, 114, 178}},
                            Kind{PipelineWork::Backward, "backward", {213, 94, 0}},
                            Kind{PipelineWork::InputGradient, "gradient of input", {230, 159, 0}},
                            Kind{PipelineWork::WeightGradient, "gradient of weights", {0, 158, 115}}};

const Kind& kind_of(PipelineWork work) {
  return *std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& kind) { return kind.work == work; });
}

/// From the full colour of chunk 0 to a light one of the last.
Color shade(const Color& color, int chunk, int chunks) {
  constexpr double kLightest = 0.6;
  const double white = chunks > 1 ? kLightest * chunk / (chunks - 1) : 0;
  const auto mix = [&](int part) { return static_cast<int>(std::lround(part + (255 - part) * white)); };
  return {mix(color.red), mix(color.green), mix(color.blue)};
}

std::string hex(const Color& color) { return fmt::format("#{:02x}{:02x}{:02x}", color.red, color.green, color.blue); }

/// Of words on that colour; weights as in Rec. 601, the bound so that both read well on all shades.
std::string_view ink_on(const Color& color) {
  const double brightness = 0.299 * color.red + 0.587 * color.green + 0.114 * color.blue;
  return brightness < 130 ? "#ffffff" : "#222222";
}

std::string box(double x, double y, double width, double height, std::string_view color) {
  return fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" rx=\"3\" fill=\"{}\"/>", x, y,
                     width, height, color);
}

std::string words(double x, double y, std::string_view anchor, std::string_view text, std::string_view extra = "") {
  return fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"{}\"{}>{}</text>", x, y, anchor, extra,
                     svg::escaped(std::string(text)));
}

/// 1, 2 or 5 times a power of ten, for at most `most` ticks.
double tick_step(double end, double most) {
  const double power = std::pow(10, std::floor(std::log10(end / most)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (end / (factor * power) <= most) return factor * power;
  }
  return 10 * power;
}

class Drawing {
 public:
  explicit Drawing(const PipelineTimeline& timeline) : timeline_(timeline), end_(parallel::makespan(timeline)) {
    double shortest = std::numeric_limits<double>::infinity();
    for (const auto& stage : timeline) {
      for (const auto& [action, begin, end] : stage) {
        chunks_ = std::max(chunks_, action.chunk + 1);
        used_[static_cast<std::size_t>(action.work)] = true;
        if (end > begin) shortest = std::min(shortest, end - begin);
      }
    }
    // The shortest box has room for its number, unless that made the whole too wide for any screen.
    constexpr double kNarrowestBox = 24, kNarrowest = 640, kWidest = 4800;
    lanes_width_ = end_ > 0 ? std::clamp(kNarrowestBox * end_ / shortest, kNarrowest, kWidest) : kNarrowest;
  }

  std::string file(const std::string& title) const {
    const double width = kLeft + lanes_width_ + kRight;
    const double height = lanes_bottom() + 58 + kLegendStep * chunks_;
    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333333\">\n<title>{2}</title>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        width, height, svg::escaped(title));
    out += words(kLeft, 32, "start", title, " font-size=\"17\" font-weight=\"bold\"") + "\n";
    out += words(kLeft, 54, "start",
                 fmt::format("bubble {:.1f} %: the idle share of {} {} over {:.4g} units of time",
                             100 * parallel::bubble_share(timeline_), timeline_.size(),
                             timeline_.size() == 1 ? "stage" : "stages", end_),
                 " fill=\"#666666\"") +
           "\n";
    for (std::size_t stage = 0; stage < timeline_.size(); ++stage) out += lane(stage);
    return out + axis() + legend() + "</svg>\n";
  }

 private:
  double x(double time) const { return end_ > 0 ? kLeft + time / end_ * lanes_width_ : kLeft; }
  double lanes_bottom() const { return kTop + static_cast<double>(timeline_.size()) * (kLane + kGap); }

  std::string lane(std::size_t stage) const {
    const double top = kTop + static_cast<double>(stage) * (kLane + kGap);
    std::string out = words(kLeft - 12, top + kLane / 2 + 4, "end", fmt::format("stage {}", stage)) +
                      box(kLeft, top, lanes_width_, kLane, "#eeeeee") + "\n";
    for (const auto& timed : timeline_[stage]) out += action(timed, top + (kLane - kBox) / 2);
    return out;
  }

  std::string action(const TimedAction& timed, double top) const {
    const auto& [done, begin, end] = timed;
    const auto& kind = kind_of(done.work);
    const Color color = shade(kind.color, done.chunk, chunks_);
    constexpr double kApart = 1;  // so that boxes of one colour are seen to be two
    const double width = std::max(x(end) - x(begin) - kApart, 0.0);
    const std::string number = std::to_string(done.micro_batch);
    std::string out = fmt::format("<g><title>{} of micro-batch {}{}, from {:.6g} to {:.6g}</title>{}", kind.name,
                                  number, chunks_ > 1 ? fmt::format(" in chunk {}", done.chunk) : "", begin, end,
                                  box(x(begin) + kApart / 2, top, width, kBox, hex(color)));
    if (width > kDigit * static_cast<double>(number.size()) + 2) {
      out += words((x(begin) + x(end)) / 2, top + kBox / 2 + 4, "middle", number,
                   fmt::format(" fill=\"{}\"", ink_on(color)));
    }
    return out + "</g>\n";
  }

  std::string axis() const {
    std::string out;
    if (end_ == 0) return out;
    const double step = tick_step(end_, lanes_width_ / 48);
    // Counted, since a sum of steps would drift off round numbers.
    for (int number = 0; number * step <= end_; ++number) {
      const double place = x(number * step);
      out += fmt::format("<line x1=\"{0:.2f}\" y1=\"{1:.2f}\" x2=\"{0:.2f}\" y2=\"{2:.2f}\" stroke=\"#999999\"/>",
                         place, lanes_bottom(), lanes_bottom() + 5) +
             words(place, lanes_bottom() + 18, "middle", fmt::format("{:.6g}", number * step), " fill=\"#666666\"") +
             "\n";
    }
    return out + words(kLeft - 12, lanes_bottom() + 18, "end", "time", " fill=\"#666666\"") + "\n";
  }

  /// A column per kind of work that occurs, a line per chunk.
  std::string legend() const {
    constexpr double kSwatch = 16;
    std::string out;
    double left = kLeft, next_left = kLeft;
    const auto entry = [&](int line, std::string_view color, std::string_view text) {
      const double top = lanes_bottom() + 40 + kLegendStep * line;
      out += box(left, top, kSwatch, kSwatch, color) + words(left + kSwatch + 8, top + 12, "start", text) + "\n";
      next_left = std::max(next_left, left + kSwatch + 32 + kDigit * static_cast<double>(text.size()));
    };
    for (const auto& kind : kKinds) {
      if (!used_[static_cast<std::size_t>(kind.work)]) continue;
      for (int chunk = 0; chunk < chunks_; ++chunk) {
        entry(chunk, hex(shade(kind.color, chunk, chunks_)),
              chunks_ > 1 ? fmt::format("{}, chunk {}", kind.name, chunk) : std::string(kind.name));
      }
      left = next_left;
    }
    entry(0, "#eeeeee", "idle");
    return out;
  }

  const PipelineTimeline& timeline_;
  double end_;
  int chunks_ = 1;
  std::array<bool, kKinds.size()> used_{};  // by kind of work
  double lanes_width_;
};

}  // namespace

std::string pipeline_svg(const PipelineTimeline& timeline, const std::string& title) {
  return Drawing(timeline).file(title);
}

}  // namespace lockstep::apps

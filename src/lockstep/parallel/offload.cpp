#include "lockstep/parallel/offload.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>

#include "lockstep/profile/span.h"

namespace lockstep::parallel {

Offload::Offload(const OffloadOptions& options, std::vector<Run> units)
    : options_(options), units_(std::move(units)), file_(options.folder, bytes_of(options, units_)) {
  std::int64_t end = 0;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    begins_.push_back(end);
    end += parts() * units_[unit].elements * size_of(unit);
  }
  make_pieces();
}

std::int64_t Offload::bytes_of(const OffloadOptions& options, const std::vector<Run>& units) {
  std::int64_t bytes = 0;
  for (const auto& [elements, type] : units) bytes += elements * static_cast<std::int64_t>(c10::elementSize(type));
  return bytes * parts_of(options);
}

std::int64_t Offload::elements_of_piece(const OffloadOptions& options, const Run& unit) {
  return std::max<std::int64_t>(options.piece_bytes / static_cast<std::int64_t>(c10::elementSize(unit.type)), 1);
}

Offload::Pieces Offload::pieces_of(const OffloadOptions& options, const std::vector<Run>& units) {
  Pieces pieces;
  for (const auto& unit : units) {
    const std::int64_t length = elements_of_piece(options, unit);
    pieces.count += (unit.elements + length - 1) / length;
    pieces.most_bytes = std::max(
        pieces.most_bytes, std::min(length, unit.elements) * static_cast<std::int64_t>(c10::elementSize(unit.type)));
  }
  return pieces;
}

std::int64_t Offload::memory_bytes_of(const OffloadOptions& options, const std::vector<Run>& units) {
  const auto [count, most_bytes] = pieces_of(options, units);
  return std::min(count, kBuffers) * parts_of(options) * most_bytes;
}

void Offload::make_pieces() {
  if (parts() == 0) return;
  const std::int64_t most = pieces_of(options_, units_).most_bytes;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    const std::int64_t length = elements_of_piece(options_, units_[unit]);
    for (std::int64_t first = 0; first < units_[unit].elements; first += length) {
      pieces_.push_back({unit, first, std::min(length, units_[unit].elements - first)});
    }
  }
  for (std::size_t number = 0; number < std::min(pieces_.size(), buffers_.size()); ++number) {
    buffers_[number] = at::empty({parts() * most}, at::kByte);
  }
  for (std::size_t number = 0; number < pieces_.size(); ++number) {
    auto* memory = static_cast<std::byte*>(buffers_[number % buffers_.size()].mutable_data_ptr());
    for (int part = 0; part < parts(); ++part) pieces_[number].parts.push_back(memory + part * most);
  }
}

std::int64_t Offload::size_of(std::size_t unit) const noexcept {
  return static_cast<std::int64_t>(c10::elementSize(units_[unit].type));
}

std::int64_t Offload::place(std::size_t unit, Part part, std::int64_t element) const noexcept {
  return begins_[unit] + (part * units_[unit].elements + element) * size_of(unit);
}

at::Tensor Offload::read(std::size_t unit, Part part, std::int64_t first, std::int64_t count) {
  at::Tensor values = at::empty({count}, units_[unit].type);
  wait(file_.read(place(unit, part, first), values.mutable_data_ptr(), static_cast<std::int64_t>(values.nbytes())));
  return values;
}

void Offload::write(std::size_t unit, Part part, std::int64_t first, const at::Tensor& values) {
  const at::Tensor run = values.contiguous();
  wait(file_.write(place(unit, part, first), run.const_data_ptr(), static_cast<std::int64_t>(run.nbytes())));
}

OffloadFile::Ticket Offload::begin_read(std::size_t unit, Part part, const at::Tensor& to) {
  return file_.read(place(unit, part, 0), to.mutable_data_ptr(), static_cast<std::int64_t>(to.nbytes()));
}

void Offload::wait(OffloadFile::Ticket ticket) {
  const profile::Span span("wait for the disk");
  file_.wait(ticket);
}

template <class Ask>
OffloadFile::Ticket Offload::for_parts(const Piece& piece, const Ask& ask) {
  OffloadFile::Ticket last = 0;
  for (int part = 0; part < parts(); ++part) {
    last = ask(place(piece.unit, part, piece.first), piece.parts[static_cast<std::size_t>(part)],
               piece.count * size_of(piece.unit));
  }
  return last;
}

void Offload::update(const std::function<void(const Piece&)>& work) {
  std::array<OffloadFile::Ticket, 2> arrives{};  // by buffer
  const auto fetch = [&](std::size_t number) {
    if (number >= pieces_.size()) return;
    arrives[number % buffers_.size()] =
        for_parts(pieces_[number], [this](auto... range) { return file_.read(range...); });
  };
  for (std::size_t number = 0; number < buffers_.size(); ++number) fetch(number);
  for (std::size_t number = 0; number < pieces_.size(); ++number) {
    wait(arrives[number % buffers_.size()]);
    work(pieces_[number]);
    // The file keeps the order: what is read into this buffer next comes after it is written. Nor does anybody wait for
    // the last ones.
    for_parts(pieces_[number], [this](auto... range) { return file_.write(range...); });
    fetch(number + buffers_.size());
  }
}

std::int64_t Offload::memory_bytes() const noexcept {
  std::int64_t bytes = 0;
  for (const auto& buffer : buffers_) bytes += buffer.defined() ? static_cast<std::int64_t>(buffer.nbytes()) : 0;
  return bytes;
}

}  // namespace lockstep::parallel

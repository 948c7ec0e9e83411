#include "kernel/train/data/sample_reader.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "kernel/train/data/data_files.hpp"
#include "tessera/error.hpp"
#include "tessera/random.hpp"
#include "tessera/zigzag.hpp"

namespace tessera {

SampleReader::SampleReader(const Dataset& dataset,
                           ModelParts& parts,
                           const BatchShape& shape,
                           const Mesh& mesh)
    : SampleReader(dataset, parts, shape, mesh, DataInputs(parts, dataset.fields())) {}

SampleReader::SampleReader(const Dataset& dataset,
                           ModelParts& parts,
                           const BatchShape& shape,
                           const Mesh& mesh,
                           DataInputs from)
    : dataset_(dataset),
      shape_(shape),
      data_ranks_(mesh.size(Axis::data)),
      data_rank_(mesh.coordinate(Axis::data)),
      context_ranks_(mesh.size(Axis::context)),
      context_rank_(mesh.coordinate(Axis::context)),
      from_(std::move(from)) {
  for (const FieldInfo& info : from_.inputs()) {
    inputs_.push_back({info, Slot{parts.slot(info.name)}, microbatch_bytes_});
    const i64 bytes = values_of(info, shape) * dtype_size(info.dtype);
    microbatch_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  find_masks(parts);
  check_ = SampleCheck(parts, from_, shape.sequence * context_ranks_);
}

void SampleReader::find_masks(const ModelParts& parts) {
  for (const ModelParts::LossInfo& loss : parts.losses()) {
    losses_.push_back(loss.weight);
    masks_.push_back(-1);
    if (loss.weight != LossWeight::field) continue;
    const auto weights = [&](const Input& input) {
      return loss.mask.empty() ? input.info.loss == loss.name : input.info.name == loss.mask;
    };
    const auto mask = std::ranges::find_if(inputs_, weights);
    if (mask == inputs_.end()) {
      fail_config("{}{}the dataset has no mask for the loss \"{}\", so it cannot be weighted",
                  loss.component,
                  loss.component.empty() ? "" : ": ",
                  loss.name);
    }
    if (mask->info.dtype != DType::u8) {
      fail_config("the mask \"{}\" of the loss \"{}\" is {}, and u8 was expected",
                  mask->info.name,
                  loss.name,
                  dtype_name(mask->info.dtype));
    }
    masks_.back() = static_cast<int>(mask - inputs_.begin());
  }
}

std::string unmasked_loss(const ModelParts& parts) {
  for (const ModelParts::LossInfo& loss : parts.losses()) {
    if (!loss.auxiliary && loss.weight != LossWeight::field) return loss.name;
  }
  return {};
}

int SampleReader::microbatches(i64 count) const {
  const i64 samples = data_ranks_ * shape_.micro;
  return static_cast<int>((count + samples - 1) / samples);
}

void SampleReader::read(SampleSet set,
                        i64 first,
                        i64 count,
                        int from,
                        int n,
                        std::byte* to,
                        std::span<i64> weights) const {
  for (int j = 0; j < n; ++j) {
    read_microbatch(set, first, count, from + j, to + j * microbatch_bytes_, weights);
  }
}

i64 SampleReader::position(i64 local) const {
  const i64 length = shape_.sequence / zigzag::kHalves;
  if (context_ranks_ == 1) return local;
  return zigzag::chunk(context_ranks_, context_rank_, local / length) * length + local % length;
}

// Where a file has changed, the error says so: that is why it could not be read.
void SampleReader::read_whole(SampleSet set, i64 ordinal, const SampleBuffers& out) const {
  try {
    dataset_.read(set, ordinal, out);
  } catch (const std::exception&) {
    require_unchanged(dataset_);
    throw;
  }
}

void SampleReader::read_sample(SampleSet set,
                               i64 ordinal,
                               const std::vector<std::byte*>& parts) const {
  const std::vector<DataInputs::Source>& sources = from_.sources();
  const i64 length = shape_.sequence * context_ranks_;
  const auto cut = [&](const FieldInfo& info) {
    return context_ranks_ > 1 && info.length == FieldInfo::kTokens;
  };
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> whole = parts;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const FieldInfo& info = sources[i].info;
    if (parts[i] != nullptr && !cut(info)) continue;
    const i64 values = values_of(info, {.micro = 1, .sequence = length});
    const auto bytes = static_cast<std::size_t>(values * dtype_size(info.dtype));
    whole[i] = memory.emplace_back(bytes).data();
  }
  SampleBuffers out;
  out.fields.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(from_.fields()));
  read_whole(set, ordinal, out);
  from_.later().fill(whole, length);
  check_(set, ordinal, whole);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (parts[i] == nullptr || !cut(sources[i].info)) continue;
    const i64 chunk = shape_.sequence / zigzag::kHalves * dtype_size(sources[i].info.dtype);
    for (i64 half = 0; half < zigzag::kHalves; ++half) {
      const i64 from = zigzag::chunk(context_ranks_, context_rank_, half) * chunk;
      std::copy_n(whole[i] + from, chunk, parts[i] + half * chunk);
    }
  }
}

std::byte* SampleReader::place(int input, i64 sample, std::byte* microbatch) const {
  if (input < 0) return nullptr;
  const Input& to = inputs_[static_cast<std::size_t>(input)];
  const i64 values = values_of(to.info, {.micro = 1, .sequence = shape_.sequence});
  return microbatch + to.offset + sample * values * dtype_size(to.info.dtype);
}

// Ranks of a context-parallel group share a sample and have positions of their own.
void SampleReader::add_sample(std::span<i64> weights) const {
  for (std::size_t term = 0; term < losses_.size(); ++term) {
    if (losses_[term] == LossWeight::samples) weights[term] += context_rank_ == 0 ? 1 : 0;
    if (losses_[term] == LossWeight::tokens) weights[term] += shape_.sequence;
  }
}

void SampleReader::read_microbatch(SampleSet set,
                                   i64 first,
                                   i64 count,
                                   int microbatch,
                                   std::byte* to,
                                   std::span<i64> weights) const {
  const i64 begin = (microbatch * data_ranks_ + data_rank_) * shape_.micro;
  std::vector<std::byte*> parts(from_.sources().size());
  for (i64 sample = 0; sample < shape_.micro; ++sample) {
    const bool real = begin + sample < count;
    const i64 ordinal = first + (real ? begin + sample : 0);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i] = place(from_.sources()[i].input, sample, to);
    }
    if (from_.any_field()) read_sample(set, ordinal, parts);
    auto* rows = reinterpret_cast<i64*>(place(from_.row_ids(), sample, to));
    auto* positions = reinterpret_cast<i64*>(place(from_.positions(), sample, to));
    for (i64 local = 0; local < shape_.sequence; ++local) {
      const i64 at = position(local);
      rows[local] = real ? row_id(ordinal, at) : padding_row(at);
      if (positions != nullptr) positions[local] = at;
    }
    if (real) add_sample(weights);
    for (std::size_t term = 0; term < masks_.size(); ++term) {
      if (masks_[term] < 0) continue;
      weigh(term, place(masks_[term], sample, to), real, weights[term]);
    }
  }
}

// Ranks of a context-parallel group have parts of a mask of tokens, and each the whole of another.
void SampleReader::weigh(std::size_t term, std::byte* mask, bool real, i64& weight) const {
  const FieldInfo& info = inputs_[static_cast<std::size_t>(masks_[term])].info;
  const i64 values = values_of(info, {.micro = 1, .sequence = shape_.sequence});
  if (!real) std::fill_n(mask, values, std::byte{0});
  if (info.length != FieldInfo::kTokens && context_rank_ != 0) return;
  for (i64 k = 0; k < values; ++k) weight += std::to_integer<i64>(mask[k]);
}

}  // namespace tessera

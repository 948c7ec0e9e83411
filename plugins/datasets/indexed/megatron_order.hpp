#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cut.hpp"
#include "megatron_blend.hpp"
#include "order.hpp"
#include "parts.hpp"
#include "tessera/io/kept_bytes.hpp"

namespace tessera {

/// The order "megatron": samples of parts in the order of Megatron-LM's BlendedDataset for the same
/// files, weights, seed and number of samples. The arrays of a blend are built once on a host,
/// where there is a folder to keep them in.
class MegatronOrder final : public Order {
 public:
  /// Cuts a part into its samples, in their order; at least so many, or none: one epoch.
  using MakeCut = std::function<std::unique_ptr<Cut>(Part part, std::optional<i64> samples)>;

  /// `samples`: that a run reads; none: one epoch. Throws ConfigError where several parts without
  /// weights have fewer.
  MegatronOrder(std::vector<Part> parts,
                const std::vector<double>& weights,
                std::optional<i64> samples,
                const std::string& keep_in,
                const MakeCut& make_cut);
  i64 size() const override { return size_; }
  void find(i64 ordinal, Sample& sample) const override;

 private:
  void blend(const std::vector<double>& shares,
             const std::optional<i64>& samples,
             const std::string& keep_in);

  std::vector<std::unique_ptr<Cut>> cuts_;
  std::unique_ptr<KeptBytes> kept_blend_;
  std::unique_ptr<MegatronBlend> blend_;
  i64 size_ = 0;
};

}  // namespace tessera

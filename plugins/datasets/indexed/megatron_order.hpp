#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "megatron_blend.hpp"
#include "megatron_index.hpp"
#include "order.hpp"
#include "parts.hpp"
#include "tessera/io/kept_bytes.hpp"

namespace tessera {

/// The order "megatron": samples in the order of Megatron-LM's GPTDataset and BlendedDataset for
/// the same files, weights, seed and number of samples. Its arrays are built once on a host, where
/// there is a folder to keep them in.
class MegatronOrder final : public Order {
 public:
  struct Settings {
    i64 length = 1;
    std::optional<i64> samples = {};  ///< that a run reads; none: one epoch
    u32 seed = 0;
    bool tail = false;
    std::string keep_in = {};
  };
  MegatronOrder(std::vector<Part> parts,
                const std::vector<double>& weights,
                const Settings& settings);
  i64 size() const override { return size_; }
  void find(i64 ordinal, Sample& sample) const override;

 private:
  struct Source {
    Part part;
    std::unique_ptr<KeptBytes> kept;
    std::unique_ptr<MegatronIndex> index;
  };
  void add_source(Part part, std::optional<i64> samples);
  void blend(const std::vector<double>& weights, const std::optional<i64>& samples);

  Settings settings_;
  std::vector<Source> sources_;
  std::unique_ptr<KeptBytes> kept_blend_;
  std::unique_ptr<MegatronBlend> blend_;
  i64 size_ = 0;
};

}  // namespace tessera

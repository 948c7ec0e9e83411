#pragma once
#include <memory>
#include <string>

#include "cut.hpp"
#include "megatron_index.hpp"
#include "tessera/io/kept_bytes.hpp"

namespace tessera {

/// Samples of a part in the order of Megatron-LM's GPTDataset. Its arrays are built once on a host,
/// where there is a folder to keep them in.
class MegatronCut final : public Cut {
 public:
  MegatronCut(Part part, const IndexRequest& request, const std::string& keep_in);
  i64 size() const override { return index_->samples(); }
  void find(i64 number, Sample& sample) const override;

 private:
  Part part_;
  i64 length_;
  std::unique_ptr<KeptBytes> kept_;
  std::unique_ptr<MegatronIndex> index_;
};

}  // namespace tessera

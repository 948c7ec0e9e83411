#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/build.hpp"

namespace tessera {

/// What the layers of one rank declared, collected while they are built: parameters and buffers in
/// model order, bundle slots, loss terms, metrics.
class ModelParts {
 public:
  struct Entry {
    std::unique_ptr<Parameter> parameter;
    std::vector<int> layers;  ///< indices of the layers that declared it
    std::string component;    ///< the table that declared it first, for errors; may be empty
    std::vector<Split> split;
    Placement placement;
  };
  struct MetricInfo {
    std::string name;
    MetricReduce reduce = MetricReduce::sum;
    std::vector<Axis> partial;
    bool of_validation = false;
    bool same(const MetricInfo& other) const {
      return reduce == other.reduce && partial == other.partial &&
             of_validation == other.of_validation;
    }
  };
  struct LossInfo {
    std::string name;
    LossWeight weight = LossWeight::field;
    bool auxiliary = false;
    std::vector<Axis> partial;
    std::string component;  ///< the table of the layer that declared it first, for errors
    std::string mask;       ///< the input that weights it; empty: the data says which
    i64 most;               ///< values of 1 in a sample's mask that there is room for; 0: all
    std::string most_key;   ///< what sets it
    std::string metric;     ///< of an auxiliary term: where its value is shown
    bool same(const LossInfo& other) const {
      return weight == other.weight && auxiliary == other.auxiliary && partial == other.partial &&
             mask == other.mask && most == other.most && metric == other.metric;
    }
  };

  /// What values of an input are below, and the key that sets it.
  struct Bound {
    std::string input;
    i64 values = 0;
    std::string component, key;
  };

  struct CountInfo {
    std::string scope;  ///< of the component that counts
    CountSpec spec;
  };

  /// Pipeline ranks that hold each parameter, in the order of their stages, by name.
  using Holders = std::map<std::string, std::vector<int>, std::less<>>;
  /// Parameters that are not among `holders` are held by this rank alone.
  explicit ModelParts(const Mesh& mesh, Holders holders = {})
      : mesh_(mesh), holders_(std::move(holders)) {}

  Parameter& declare(const ParameterSpec& spec,
                     const std::string& scope,
                     int layer,
                     const std::string& component = {});
  int slot(std::string_view name) { return index_of(slots_, name); }
  int host_slot(std::string_view name) { return index_of(host_slots_, name); }
  int cache_slot() { return cache_slots_++; }
  /// `main`: the dtype of those that name none.
  Buffer& declare(const BufferSpec& spec, const std::string& scope, DType main);
  int loss(const LossSpec& spec, std::string_view component = {});
  void bound(Bound bound) { bounds_.push_back(std::move(bound)); }
  int metric(const MetricSpec& spec);
  int counts(const CountSpec& spec, const std::string& scope);
  /// Terms, metrics and counts of layers on other stages: they are the same on all of them.
  void declare(const std::vector<LossInfo>& losses,
               const std::vector<MetricInfo>& metrics,
               const std::vector<CountInfo>& counts);

  const std::vector<Entry>& parameters() const { return parameters_; }
  /// The parameter of a logical name; nullptr when no layer of this rank declared it.
  Parameter* find(std::string_view name) const;
  std::vector<Parameter*> parameter_list() const;
  const std::vector<std::unique_ptr<Buffer>>& buffers() const { return buffers_; }
  /// Gives the buffers their memory.
  void allocate_buffers(Device& device);
  /// Writes their initial values; where `saved` is false, only those of buffers that no checkpoint
  /// has.
  void initialize_buffers(Device& device, bool saved);
  const std::vector<std::string>& slots() const { return slots_; }
  int cache_slots() const { return cache_slots_; }
  const std::vector<LossInfo>& losses() const { return losses_; }
  const std::vector<MetricInfo>& metrics() const { return metrics_; }
  const std::vector<CountInfo>& counts() const { return counts_; }
  const std::vector<Bound>& bounds() const { return bounds_; }
  Bundle bundle() const {
    return {static_cast<int>(slots_.size()), static_cast<int>(host_slots_.size()), blocks_};
  }
  std::vector<ParameterName> parameter_names() const;
  /// Logical elements of all parameters of this rank, shared ones once.
  i64 logical_elements() const { return logical_elements_; }
  /// Elements of parameters that one token uses.
  i64 active_elements() const;

 private:
  std::vector<Bound> bounds_;
  int add(const LossInfo& loss);
  int add(const MetricInfo& metric);
  int add(const CountInfo& counts);
  static int index_of(std::vector<std::string>& names, std::string_view name);
  const Mesh& mesh_;
  Holders holders_;
  std::vector<Entry> parameters_;
  i64 logical_elements_ = 0;
  std::map<std::string, std::size_t, std::less<>> by_name_;  // indices of parameters_
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::string> slots_, host_slots_;
  std::shared_ptr<HostBlocks> blocks_ = std::make_shared<HostBlocks>();
  int cache_slots_ = 0;
  std::vector<LossInfo> losses_;
  std::vector<MetricInfo> metrics_;
  std::vector<CountInfo> counts_;
};

}  // namespace tessera

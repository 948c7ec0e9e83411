#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "tessera/dispatcher.hpp"

namespace tessera::testing {

/// A dispatcher that leaves all work to another one; mutants override what they do wrong.
class ForwardingDispatcher : public TokenDispatcher {
 public:
  explicit ForwardingDispatcher(std::shared_ptr<TokenDispatcher> inner)
      : inner_(std::move(inner)) {}

  ExpertRows do_preprocess(Context& cx,
                           Bundle& bundle,
                           const Tensor& x,
                           const Routing& routing) const override {
    return inner_->preprocess(cx, bundle, x, routing);
  }
  std::vector<HostSlot> do_reads() const override { return inner_->reads(); }
  Shapes do_shapes() const override { return inner_->shapes(); }
  ExpertRows do_dispatch(Context& cx,
                         Bundle& bundle,
                         const ExpertRows& rows,
                         const Meanwhile& meanwhile) const override {
    return inner_->dispatch(cx, bundle, rows, meanwhile);
  }
  Tensor do_counts(const Bundle& bundle) const override { return inner_->counts(bundle); }
  Tensor do_combine(Context& cx,
                    Bundle& bundle,
                    const Tensor& y,
                    const Meanwhile& meanwhile) const override {
    return inner_->combine(cx, bundle, y, meanwhile);
  }
  Tensor do_unpermute(Context& cx, Bundle& bundle, const Tensor& y) const override {
    return inner_->unpermute(cx, bundle, y);
  }

 private:
  std::shared_ptr<TokenDispatcher> inner_;
};

}  // namespace tessera::testing

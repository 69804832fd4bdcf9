"""What a cluster has, and what it may become."""

from experiments.planning.machines import Cluster, Node, may_come

SETTINGS = {
    "head_node_type": "head",
    "max_workers": 4,
    "available_node_types": {
        "head": {"resources": {"CPU": 0}, "max_workers": 0},
        "small": {"resources": {"CPU": 4}, "max_workers": 10},
        "large": {"resources": {"CPU": 32, "GPU": 1}, "max_workers": 2},
    },
}


def test_an_autoscaler_may_add_each_kind_of_node_up_to_the_limits_of_kind_and_cluster() -> None:
    assert may_come(SETTINGS, num_present=1) == (Node(32, 1), Node(32, 1), Node(4, 0), Node(4, 0))
    assert may_come(SETTINGS, num_present=4) == (Node(32, 1),)
    assert may_come(SETTINGS, num_present=6) == ()


def test_a_cluster_that_may_grow_says_what_it_has_and_what_it_may_have() -> None:
    cluster = Cluster((Node(0, 0), Node(4, 0), Node(32, 1)), is_joined=True, num_coming=1)
    assert str(cluster) == "this cluster of 2 nodes has 4 CPUs and 0 GPUs, and may grow to 36 CPUs and 1 GPU"
    assert cluster.present.nodes == (Node(0, 0), Node(4, 0))

"""Configurations of other servers, replayed against them and against Tutti with what `tutti import` made of them."""

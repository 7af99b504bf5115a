await fetch(`${process.env.WRS_BASE_URL}/v1/hello`, { headers: { authorization: `Bearer ${process.env.WRS_API_KEY}` } });
